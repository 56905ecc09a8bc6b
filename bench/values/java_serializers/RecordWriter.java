import com.fasterxml.jackson.databind.ObjectMapper;
import com.google.gson.Gson;
import com.google.protobuf.DescriptorProtos.FileDescriptorProto;
import com.google.protobuf.DescriptorProtos.FileDescriptorSet;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.DynamicMessage;
import com.google.protobuf.util.JsonFormat;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.OutputStream;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.avro.LogicalTypes;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.EncoderFactory;

/**
 * Values as Java's producers write them: by each of the encoders that Confluent's serializers call, behind Confluent's
 * header.
 *
 * <p>Arguments: folder, schema id, kinds of records as {@code <kind>=<message>}. In the folder: {@code <kind>.avsc},
 * {@code <kind>.desc} (a descriptor set, the own file last), {@code <kind>.typed.jsonl} (Protobuf's JSON mapping),
 * {@code <kind>.jsonl}. Out come {@code <kind>.<encoder>.values}: each value behind its length, 4 bytes big-endian.
 */
public final class RecordWriter {
    private interface Encoding {
        void write(String line, OutputStream out) throws Exception;
    }

    private static final ObjectMapper JACKSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        byte[] header = ByteBuffer.allocate(5).put((byte) 0).putInt(Integer.parseInt(arguments[1])).array();
        for (String kind : List.of(arguments).subList(2, arguments.length)) {
            writeKind(Path.of(arguments[0]), kind.split("=")[0], kind.split("=")[1], header);
        }
    }

    private static void writeKind(Path folder, String kind, String fullName, byte[] header) throws Exception {
        Path typed = folder.resolve(kind + ".typed.jsonl");
        Path plain = folder.resolve(kind + ".jsonl");

        Schema schema = new Schema.Parser().parse(folder.resolve(kind + ".avsc").toFile());
        GenericDatumWriter<Object> avro = new GenericDatumWriter<>(schema);
        write(folder, kind + ".avro_java", typed, header, (line, out) -> {
            // As AbstractKafkaAvroSerializer does.
            BinaryEncoder encoder = EncoderFactory.get().directBinaryEncoder(out, null);
            avro.write(asAvro(schema, JACKSON.readValue(line, Object.class)), encoder);
            encoder.flush();
        });

        FileDescriptor file = lastFile(FileDescriptorSet.parseFrom(Files.readAllBytes(folder.resolve(kind + ".desc"))));
        String message = fullName.substring(fullName.lastIndexOf('.') + 1);
        write(folder, kind + ".protobuf_java", typed, header, (line, out) -> {
            DynamicMessage.Builder builder = DynamicMessage.newBuilder(file.findMessageTypeByName(message));
            JsonFormat.parser().merge(line, builder);
            out.write(0); // the file's first message
            builder.build().writeTo(out);
        });

        write(folder, kind + ".json_jackson", plain, header, (line, out) ->
                out.write(JACKSON.writeValueAsBytes(JACKSON.readValue(line, LinkedHashMap.class))));
        Gson gson = new Gson();
        write(folder, kind + ".json_gson", plain, header, (line, out) ->
                out.write(gson.toJson(JACKSON.readValue(line, LinkedHashMap.class)).getBytes(StandardCharsets.UTF_8)));
    }

    private static void write(Path folder, String name, Path lines, byte[] header, Encoding encoding) throws Exception {
        try (DataOutputStream out = new DataOutputStream(
                new java.io.BufferedOutputStream(Files.newOutputStream(folder.resolve(name + ".values"))))) {
            for (String line : Files.readAllLines(lines)) {
                ByteArrayOutputStream value = new ByteArrayOutputStream();
                value.write(header);
                encoding.write(line, value);
                out.writeInt(value.size());
                value.writeTo(out);
            }
        }
    }

    private static FileDescriptor lastFile(FileDescriptorSet set) throws Exception {
        Map<String, FileDescriptor> known = new LinkedHashMap<>();
        FileDescriptor last = null;
        for (FileDescriptorProto proto : set.getFileList()) {
            List<FileDescriptor> imports = new ArrayList<>();
            for (String name : proto.getDependencyList()) {
                imports.add(known.get(name));
            }
            last = FileDescriptor.buildFrom(proto, imports.toArray(new FileDescriptor[0]));
            known.put(proto.getName(), last);
        }
        return last;
    }

    /** A tree of Protobuf's JSON mapping as the objects that Avro's generic writer takes. */
    private static Object asAvro(Schema schema, Object value) {
        switch (schema.getType()) {
            case UNION:
                return value == null ? null : asAvro(schema.getTypes().get(1), value);
            case RECORD:
                GenericData.Record record = new GenericData.Record(schema);
                for (Schema.Field field : schema.getFields()) {
                    record.put(field.name(), asAvro(field.schema(), ((Map<?, ?>) value).get(field.name())));
                }
                return record;
            case ARRAY:
                GenericData.Array<Object> array = new GenericData.Array<>(0, schema);
                for (Object element : (List<?>) value) {
                    array.add(asAvro(schema.getElementType(), element));
                }
                return array;
            case MAP:
                Map<String, Object> map = new LinkedHashMap<>();
                ((Map<?, ?>) value).forEach((key, one) -> map.put((String) key, asAvro(schema.getValueType(), one)));
                return map;
            case ENUM:
                return new GenericData.EnumSymbol(schema, value);
            case BYTES:
                int scale = ((LogicalTypes.Decimal) schema.getLogicalType()).getScale();
                return ByteBuffer.wrap(new BigDecimal((String) value).setScale(scale).unscaledValue().toByteArray());
            case LONG:
                return value instanceof String ? Instant.parse((String) value).toEpochMilli() : ((Number) value).longValue();
            case INT:
                return ((Number) value).intValue();
            case DOUBLE:
                return ((Number) value).doubleValue();
            case FLOAT:
                return ((Number) value).floatValue();
            default:
                return value;
        }
    }
}
