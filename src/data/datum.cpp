// Wire format of protobuf: a varint tag (field << 3 | wire type), then a varint (0), 8 bytes (1), a length
// and that many bytes (2) or 4 bytes (5).
#include "banyan/data/datum.hpp"

#include <cmath>
#include <cstring>

#include "banyan/base/error.hpp"
#include "proto/banyan.pb.h"

namespace banyan::data {

namespace {

class WireCursor {
 public:
  explicit WireCursor(std::string_view bytes) : at_(bytes.data()), end_(at_ + bytes.size()) {}
  bool at_end() const { return at_ == end_; }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (at_ == end_) fail();
      const auto byte = static_cast<unsigned char>(*at_++);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    fail();
  }
  std::string_view bytes(std::uint64_t length) {
    if (length > static_cast<std::uint64_t>(end_ - at_)) fail();
    const char* first = at_;
    at_ += length;
    return {first, static_cast<std::size_t>(length)};
  }
  void skip(unsigned wire_type) {
    switch (wire_type) {
      case 0:
        varint();
        return;
      case 1:
        bytes(8);
        return;
      case 2:
        bytes(varint());
        return;
      case 5:
        bytes(4);
        return;
      default:
        fail();
    }
  }

 private:
  [[noreturn]] static void fail() { bad_input("the record is not a Datum (its bytes do not parse)"); }

  const char* at_;
  const char* end_;
};

void append_floats(std::string_view bytes, std::vector<float>& values) {
  const std::size_t before = values.size(), count = bytes.size() / sizeof(float);
  values.resize(before + count);
  if (count > 0) std::memcpy(values.data() + before, bytes.data(), count * sizeof(float));
}

/// Appends the objects of a serialized AnnotationGroup.
void append_objects(std::string_view bytes, std::vector<ObjectBox>& objects) {
  caffe::AnnotationGroup group;
  if (!group.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    bad_input("the record's group of annotations does not parse");
  for (const caffe::Annotation& annotation : group.annotation()) {
    const caffe::NormalizedBBox& box = annotation.bbox();
    for (const float side : {box.xmin(), box.ymin(), box.xmax(), box.ymax()})
      if (!std::isfinite(side))
        bad_input("the box of an object with label ", group.group_label(), " is not finite");
    objects.push_back({{box.xmin(), box.ymin(), box.xmax(), box.ymax()},
                       group.group_label(),
                       annotation.instance_id(),
                       box.difficult()});
  }
}

/// YOLO's: the class from 0, whether it is difficult, and the centre and size of each object, for labels from
/// 1 as SSD has them.
void read_yolo_objects(Record& record) {
  constexpr std::size_t kNumbers = 6;
  const std::vector<float>& values = record.values;
  if (!record.encoded || values.empty() || values.size() % kNumbers != 0)
    bad_input(
        "the record is no AnnotatedDatum with an image, nor an image file with 6 numbers for each object "
        "(YOLO's); records of one Datum are read by Data");
  for (std::size_t i = 0; i < values.size(); i += kNumbers) {
    const double label = values[i], x = values[i + 2], y = values[i + 3], width = values[i + 4],
                 height = values[i + 5];
    if (!(label >= 0 && label < 1e6 && label == std::floor(label)) || !std::isfinite(x + y + width + height))
      bad_input("object ", i / kNumbers, " has the class ", label, " and the centre and size ", x, ", ", y,
                ", ", width, ", ", height, "; expected a class from 0 and finite numbers");
    record.objects.push_back({{x - width / 2, y - height / 2, x + width / 2, y + height / 2},
                              static_cast<int>(label) + 1,
                              0,
                              values[i + 1] != 0});
  }
  record.typed_objects = true;
}

constexpr unsigned tag(unsigned field, unsigned wire_type) { return field << 3 | wire_type; }

std::uint64_t expected_count(const DatumView& datum) {
  if (datum.channels < 1 || datum.height < 1 || datum.width < 1)
    bad_input("the Datum has neither an encoded image nor a size (channels ", datum.channels, ", height ",
              datum.height, ", width ", datum.width, ")");
  const std::uint64_t plane =
      static_cast<std::uint64_t>(datum.height) * static_cast<std::uint64_t>(datum.width);
  constexpr std::uint64_t kMost = std::uint64_t{1} << 31;  // a Datum cannot be longer
  if (plane > kMost || plane * static_cast<std::uint64_t>(datum.channels) > kMost)
    bad_input("the Datum's size ", datum.channels, " x ", datum.height, " x ", datum.width, " is impossible");
  return plane * static_cast<std::uint64_t>(datum.channels);
}

}  // namespace

void parse_datum(std::string_view bytes, DatumView& datum) {
  datum.channels = datum.height = datum.width = datum.label = 0;
  datum.labels.clear();
  datum.encoded = false;
  datum.data = {};
  datum.float_data.clear();
  WireCursor cursor(bytes);
  while (!cursor.at_end()) {
    const std::uint64_t key = cursor.varint();
    switch (key) {
      case tag(1, 0):
        datum.channels = static_cast<std::int32_t>(cursor.varint());
        break;
      case tag(2, 0):
        datum.height = static_cast<std::int32_t>(cursor.varint());
        break;
      case tag(3, 0):
        datum.width = static_cast<std::int32_t>(cursor.varint());
        break;
      case tag(4, 2):
        datum.data = cursor.bytes(cursor.varint());
        break;
      case tag(5, 0):
        datum.label = static_cast<std::int32_t>(cursor.varint());
        datum.labels.push_back(static_cast<float>(datum.label));
        break;
      case tag(5, 2):
        for (WireCursor packed(cursor.bytes(cursor.varint())); !packed.at_end();) {
          datum.label = static_cast<std::int32_t>(packed.varint());
          datum.labels.push_back(static_cast<float>(datum.label));
        }
        break;
      case tag(6, 5):
        append_floats(cursor.bytes(4), datum.float_data);
        break;
      case tag(6, 2):
        append_floats(cursor.bytes(cursor.varint()), datum.float_data);
        break;
      case tag(7, 0):
        datum.encoded = cursor.varint() != 0;
        break;
      default:
        if (key >> 3 == 0) bad_input("the record is not a Datum (field number 0)");
        cursor.skip(static_cast<unsigned>(key & 7));
    }
  }
  if (datum.labels.size() == 1) datum.labels.clear();
}

void read_datum(std::string_view bytes, ColorMode mode, Record& record) {
  DatumView datum;
  datum.float_data = std::move(record.values);
  datum.labels = std::move(record.labels);
  parse_datum(bytes, datum);
  record.values = std::move(datum.float_data);
  record.labels = std::move(datum.labels);
  record.label = datum.label;
  record.encoded = datum.encoded;
  record.bytes = nullptr;
  record.floats = nullptr;
  if (datum.encoded) {
    decode_image(reinterpret_cast<const std::uint8_t*>(datum.data.data()), datum.data.size(), mode,
                 record.image);
    return record.show_image();
  }
  const std::uint64_t expected = expected_count(datum);
  const bool has_bytes = !datum.data.empty();
  const std::uint64_t found = has_bytes ? datum.data.size() : record.values.size();
  if (found != expected)
    bad_input("the Datum says ", datum.channels, " x ", datum.height, " x ", datum.width, " = ", expected,
              " values, but holds ", found);
  record.channels = datum.channels;
  record.height = datum.height;
  record.width = datum.width;
  record.interleaved = false;
  if (has_bytes)
    record.bytes = reinterpret_cast<const std::uint8_t*>(datum.data.data());
  else
    record.floats = record.values.data();
}

void read_stored(const RecordFormat& format, Record& record) {
  if (!format.annotated) {
    read_datum(record.stored, format.color, record);
    return;
  }
  record.objects.clear();
  record.typed_objects = false;
  std::string_view datum;
  bool plain = false;
  std::uint64_t type = caffe::AnnotatedDatum::BBOX;
  WireCursor cursor(record.stored);
  while (!cursor.at_end()) {
    const std::uint64_t key = cursor.varint();
    switch (key) {
      case tag(1, 2):
        datum = cursor.bytes(cursor.varint());
        break;
      case tag(2, 0):
        type = cursor.varint();
        record.typed_objects = true;  // in a Datum, the height
        break;
      case tag(3, 2):
        append_objects(cursor.bytes(cursor.varint()), record.objects);
        break;
      case tag(4, 2):  // a Datum's
        plain = true;
        [[fallthrough]];
      default:
        cursor.skip(static_cast<unsigned>(key & 7));
    }
  }
  if (datum.empty() && plain) {
    read_datum(record.stored, format.color, record);
    return read_yolo_objects(record);
  }
  if (datum.empty())
    bad_input("the record is no AnnotatedDatum with an image (records of one Datum are read by Data)");
  if (type != caffe::AnnotatedDatum::BBOX)
    bad_input("the record's annotations have the type ", type, "; expected BBOX (0)");
  read_datum(datum, format.color, record);
}

std::string raw_datum(int channels, int height, int width, const std::uint8_t* pixels, std::int32_t label) {
  caffe::Datum datum;
  datum.set_channels(channels);
  datum.set_height(height);
  datum.set_width(width);
  datum.set_data(pixels, static_cast<std::size_t>(channels) * static_cast<std::size_t>(height) *
                             static_cast<std::size_t>(width));
  datum.set_label(label);
  datum.set_encoded(false);
  return datum.SerializeAsString();
}

std::string encoded_datum(std::string_view file, std::int32_t label) {
  caffe::Datum datum;
  datum.set_data(file.data(), file.size());
  datum.set_label(label);
  datum.set_encoded(true);
  return datum.SerializeAsString();
}

}  // namespace banyan::data
