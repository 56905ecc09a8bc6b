// Reads a topic with IBM's sarama.
package main

import (
	"floeberg/clients/reading"

	"github.com/IBM/sarama"
)

func main() {
	asked := reading.Arguments()
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	config.Consumer.Return.Errors = true
	config.Consumer.Fetch.Default = asked.FetchBytes
	if asked.IsCommitted {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	consumer, err := sarama.NewConsumer([]string{asked.Bootstrap}, config)
	reading.Check(err)
	partition, err := consumer.ConsumePartition(asked.Topic, 0, 0)
	reading.Check(err)
	shown := reading.NewShown(asked)
	shown.Deadline()
	for {
		select {
		case message := <-partition.Messages():
			if shown.Take(message.Offset, message.Key, message.Value) {
				return
			}
		case err := <-partition.Errors():
			reading.Check(err)
		}
	}
}
