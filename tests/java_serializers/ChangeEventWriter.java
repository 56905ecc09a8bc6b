import io.apicurio.registry.utils.converter.avro.AvroData;
import io.debezium.data.Envelope;
import io.debezium.time.Date;
import io.debezium.time.MicroTimestamp;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.math.BigDecimal;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.EncoderFactory;
import org.apache.kafka.connect.data.Decimal;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.json.JsonConverter;

/**
 * Change events of a table, made by Debezium's own envelope and written by Connect's converters.
 *
 * <p>Arguments: folder, number of customers. Out come {@code envelope.avsc}, {@code avro.values} (behind Confluent's
 * header, schema 7), {@code json.values}, {@code json_with_schemas.values}: each value behind its length, -1 for a null.
 */
public final class ChangeEventWriter {
    private static final Schema ROW = SchemaBuilder.struct().optional().name("shop.inventory.customers.Value")
            .field("id", Schema.INT32_SCHEMA)
            .field("name", Schema.STRING_SCHEMA)
            .field("email", Schema.OPTIONAL_STRING_SCHEMA)
            .field("balance", Decimal.builder(2).parameter("connect.decimal.precision", "12").optional().build())
            .field("born", Date.builder().optional().build())
            .field("changed_at", MicroTimestamp.builder().optional().build())
            .field("points", SchemaBuilder.float64().optional().build())
            .field("active", SchemaBuilder.bool().defaultValue(true).build())
            .build();
    private static final Schema SOURCE = SchemaBuilder.struct().name("io.debezium.connector.postgresql.Source")
            .field("version", Schema.STRING_SCHEMA)
            .field("connector", Schema.STRING_SCHEMA)
            .field("name", Schema.STRING_SCHEMA)
            .field("ts_ms", Schema.INT64_SCHEMA)
            .field("snapshot", io.debezium.data.Enum.builder("true,last,false,incremental").defaultValue("false")
                    .optional().build())
            .field("db", Schema.STRING_SCHEMA)
            .field("sequence", Schema.OPTIONAL_STRING_SCHEMA)
            .field("ts_us", Schema.OPTIONAL_INT64_SCHEMA)
            .field("ts_ns", Schema.OPTIONAL_INT64_SCHEMA)
            .field("schema", Schema.STRING_SCHEMA)
            .field("table", Schema.STRING_SCHEMA)
            .field("txId", Schema.OPTIONAL_INT64_SCHEMA)
            .field("lsn", Schema.OPTIONAL_INT64_SCHEMA)
            .field("xmin", Schema.OPTIONAL_INT64_SCHEMA)
            .build();

    public static void main(String[] arguments) throws Exception {
        Path folder = Path.of(arguments[0]);
        Envelope envelope = Envelope.defineSchema().withName("shop.inventory.customers.Envelope")
                .withRecord(ROW).withSource(SOURCE).build();
        List<Struct> events = events(envelope, Integer.parseInt(arguments[1]));

        AvroData avroData = new AvroData(100);
        org.apache.avro.Schema avro = avroData.fromConnectSchema(envelope.schema());
        Files.writeString(folder.resolve("envelope.avsc"), avro.toString());
        GenericDatumWriter<Object> writer = new GenericDatumWriter<>(avro);
        List<byte[]> values = new ArrayList<>();
        for (Struct event : events) {
            if (event == null) {
                values.add(null);
                continue;
            }
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            out.write(new byte[] {0, 0, 0, 0, 7});
            BinaryEncoder encoder = EncoderFactory.get().directBinaryEncoder(out, null);
            writer.write(avroData.fromConnectData(envelope.schema(), event), encoder);
            encoder.flush();
            values.add(out.toByteArray());
        }
        write(folder.resolve("avro.values"), values);
        write(folder.resolve("json.values"), asJson(envelope, events, false));
        write(folder.resolve("json_with_schemas.values"), asJson(envelope, events, true));
    }

    private static List<Struct> events(Envelope envelope, int count) {
        List<Struct> events = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            Instant now = Instant.ofEpochMilli(1_760_000_000_000L + number * 40L);
            Struct source = source(number, now);
            Struct row = row(number, "Kundin " + number + " €", now);
            events.add(number % 4 == 0 ? envelope.read(row, source, now) : envelope.create(row, source, now));
            if (number % 2 == 0) {
                events.add(envelope.update(row, row(number, "renamed \"" + number + "\"", now), source, now));
            }
            if (number % 5 == 0) {
                events.add(envelope.delete(row, source, now));
                events.add(null);
            }
        }
        return events;
    }

    private static Struct row(int number, String name, Instant now) {
        return new Struct(ROW)
                .put("id", number)
                .put("name", name)
                .put("email", number % 3 == 0 ? null : "c" + number + "@example.org")
                .put("balance", BigDecimal.valueOf(number * 1237L - 5000L, 2))
                .put("born", 8000 + number)
                .put("changed_at", now.toEpochMilli() * 1000)
                .put("points", number / 7.0)
                .put("active", number % 9 != 0);
    }

    private static Struct source(int number, Instant now) {
        return new Struct(SOURCE)
                .put("version", "3.2.0.Final").put("connector", "postgresql").put("name", "shop")
                .put("ts_ms", now.toEpochMilli()).put("snapshot", number % 4 == 0 ? "true" : "false").put("db", "shop")
                .put("sequence", "[\"" + (24023100L + number) + "\",\"24023128\"]")
                .put("ts_us", now.toEpochMilli() * 1000).put("ts_ns", now.toEpochMilli() * 1_000_000)
                .put("schema", "inventory").put("table", "customers").put("txId", 555L + number)
                .put("lsn", 24023128L + number);
    }

    private static List<byte[]> asJson(Envelope envelope, List<Struct> events, boolean withSchemas) {
        List<byte[]> values = new ArrayList<>();
        try (JsonConverter converter = new JsonConverter()) {
            converter.configure(Map.of("schemas.enable", withSchemas, "converter.type", "value"));
            for (Struct event : events) {
                values.add(event == null ? null : converter.fromConnectData("topic", envelope.schema(), event));
            }
        }
        return values;
    }

    private static void write(Path path, List<byte[]> values) throws Exception {
        try (DataOutputStream out = new DataOutputStream(Files.newOutputStream(path))) {
            for (byte[] value : values) {
                out.writeInt(value == null ? -1 : value.length);
                if (value != null) {
                    out.write(value);
                }
            }
        }
    }
}
