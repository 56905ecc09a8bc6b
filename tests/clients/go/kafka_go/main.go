// Reads a topic with segmentio's kafka-go.
package main

import (
	"floeberg/clients/reading"

	"github.com/segmentio/kafka-go"
)

func main() {
	asked := reading.Arguments()
	isolation := kafka.ReadUncommitted
	if asked.IsCommitted {
		isolation = kafka.ReadCommitted
	}
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers:        []string{asked.Bootstrap},
		Topic:          asked.Topic,
		Partition:      0,
		MinBytes:       1,
		MaxBytes:       int(asked.FetchBytes),
		IsolationLevel: isolation,
	})
	reading.Check(reader.SetOffset(0))
	shown := reading.NewShown(asked)
	deadline := shown.Deadline()
	for {
		message, err := reader.ReadMessage(deadline)
		reading.Check(err)
		if shown.Take(message.Offset, message.Key, message.Value) {
			return
		}
	}
}
