// Reads a topic with kafkajs: BOOTSTRAP TOPIC END ISOLATION FETCH_BYTES, and prints what tests/clients/go does.
const { Kafka, logLevel } = require('kafkajs')

const PATIENCE_MS = 60_000
const [bootstrap, topic, endText, isolation, fetchBytes] = process.argv.slice(2)
const end = BigInt(endText)
const lines = []
let last = -1n

function fail(problem) {
  console.error(problem)
  process.exit(1)
}

function text(data) {
  return data === null ? '-' : '=' + data.toString('base64')
}

async function read() {
  const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.ERROR })
  const consumer = kafka.consumer({
    groupId: `kafkajs-${topic}-${isolation}-${process.pid}`,
    readUncommitted: isolation === 'read_uncommitted',
    maxBytesPerPartition: Number(fetchBytes),
    maxWaitTimeInMs: 100,
  })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await consumer.run({
    autoCommit: false,
    eachMessage: async ({ message }) => {
      const offset = BigInt(message.offset)
      if (offset <= last) fail(`offset ${offset} was given after ${last}`)
      last = offset
      lines.push(`${offset} ${text(message.key)} ${text(message.value)}\n`)
      if (offset >= end - 1n) process.stdout.write(lines.join(''), () => process.exit(0))
    },
  })
}

setTimeout(() => fail(`read up to offset ${last} of ${end} in ${PATIENCE_MS / 1000} s`), PATIENCE_MS)
read().catch((error) => fail(error.stack))
