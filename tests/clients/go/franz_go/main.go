// Reads a topic with franz-go.
package main

import (
	"floeberg/clients/reading"

	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	asked := reading.Arguments()
	isolation := kgo.ReadUncommitted()
	if asked.IsCommitted {
		isolation = kgo.ReadCommitted()
	}
	from := map[string]map[int32]kgo.Offset{asked.Topic: {0: kgo.NewOffset().At(0)}}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(asked.Bootstrap),
		kgo.ConsumePartitions(from),
		kgo.FetchIsolationLevel(isolation),
		kgo.FetchMaxPartitionBytes(asked.FetchBytes),
	)
	reading.Check(err)
	shown := reading.NewShown(asked)
	deadline := shown.Deadline()
	for {
		fetches := client.PollFetches(deadline)
		reading.Check(fetches.Err())
		for records := fetches.RecordIter(); !records.Done(); {
			record := records.Next()
			if shown.Take(record.Offset, record.Key, record.Value) {
				return
			}
		}
	}
}
