#include "blob_reader.hpp"

#include <bit>
#include <cstring>

namespace banyan::io {
namespace {

/// What has been read of a blob, still as pieces of the file.
struct Pieces {
  std::int64_t legacy[4] = {0, 0, 0, 0};
  bool has_legacy = false;
  bool is_c3d = false;  ///< five axes in the fields 1 to 5, values in 6, differences in 7
  std::int64_t fifth = 0;
  std::vector<std::int64_t> dims;
  std::vector<std::string_view> packed_floats, packed_doubles;
  std::vector<float> single_floats;
  std::vector<double> single_doubles;
  std::string_view raw;
  bool has_raw = false;
  bool has_raw_type = false;
  std::uint64_t raw_type = 0;
};

void add_dim(Pieces& pieces, std::uint64_t value, const WireReader& reader) {
  if (pieces.dims.size() == kMostAxes) reader.fail(cat("a shape has more than ", kMostAxes, " axes"));
  pieces.dims.push_back(static_cast<std::int64_t>(value));
}

void read_shape(std::string_view message, const WireOrigin& origin, Pieces& pieces) {
  WireReader reader(message, origin);
  while (!reader.done()) {
    reader.read_tag();
    if (reader.is(1, WireType::varint)) {
      add_dim(pieces, reader.read_varint(), reader);
    } else if (reader.is(1, WireType::bytes)) {
      WireReader dims(reader.read_bytes(), origin);
      while (!dims.done()) add_dim(pieces, dims.read_varint(), dims);
    } else {
      reader.skip();
    }
  }
}

std::string_view read_packed(WireReader& reader, std::size_t width) {
  const std::string_view bytes = reader.read_bytes();
  if (bytes.size() % width != 0) {
    reader.fail(cat("packed values of ", width, " bytes each take ", bytes.size(), " bytes"));
  }
  return bytes;
}

/// One field of the blob. A known number with an unexpected wire type is another branch's field and is
/// skipped.
void read_field(WireReader& reader, const WireOrigin& origin, Pieces& pieces) {
  const WireType type = reader.type();
  if (reader.number() >= 1 && reader.number() <= 4 && type == WireType::varint) {
    // int32 on the wire: only the low half counts.
    pieces.legacy[reader.number() - 1] = static_cast<std::int32_t>(reader.read_varint());
    pieces.has_legacy = true;
  } else if (reader.is(5, WireType::bytes)) {
    pieces.packed_floats.push_back(read_packed(reader, sizeof(float)));
  } else if (reader.is(5, WireType::varint)) {
    pieces.fifth = static_cast<std::int32_t>(reader.read_varint());
    pieces.is_c3d = true;
  } else if (pieces.is_c3d && reader.is(6, WireType::bytes)) {
    pieces.packed_floats.push_back(read_packed(reader, sizeof(float)));
  } else if (reader.is(5, WireType::fixed32)) {
    pieces.single_floats.push_back(reader.read_fixed<float>());
  } else if (!pieces.is_c3d && reader.is(7, WireType::bytes)) {
    read_shape(reader.read_bytes(), origin, pieces);
  } else if (reader.is(8, WireType::bytes)) {
    pieces.packed_doubles.push_back(read_packed(reader, sizeof(double)));
  } else if (reader.is(8, WireType::fixed64)) {
    pieces.single_doubles.push_back(reader.read_fixed<double>());
  } else if (reader.is(10, WireType::varint)) {
    pieces.raw_type = reader.read_varint();
    pieces.has_raw_type = true;
  } else if (reader.is(12, WireType::bytes)) {
    pieces.raw = reader.read_bytes();
    pieces.has_raw = true;
  } else {
    reader.skip();
  }
}

template <class T>
void append(const std::vector<std::string_view>& packed, std::vector<T>& values) {
  std::size_t total = values.size();
  for (const std::string_view bytes : packed) total += bytes.size() / sizeof(T);
  values.reserve(total);
  for (const std::string_view bytes : packed) {
    const std::size_t old = values.size();
    values.resize(old + bytes.size() / sizeof(T));
    if (!bytes.empty()) std::memcpy(values.data() + old, bytes.data(), bytes.size());
  }
}

/// NVIDIA's raw bytes. Without a type, the width of a value determines it.
void decode_raw(const Pieces& pieces, std::uint64_t count, const WireOrigin& origin, BlobData& blob) {
  enum { kDouble = 0, kFloat = 1, kHalf = 2 };
  const std::string_view raw = pieces.raw;
  std::uint64_t type = pieces.raw_type;
  if (!pieces.has_raw_type) {
    const std::uint64_t width = count > 0 ? raw.size() / count : 0;
    type = width == sizeof(float) ? kFloat : width == sizeof(std::uint16_t) ? kHalf : kDouble;
  }
  if (type > kHalf) origin.fail(raw.data(), cat("raw values of type ", type, " are not numbers of a weight"));
  const std::size_t width = type == kDouble  ? sizeof(double)
                            : type == kFloat ? sizeof(float)
                                             : sizeof(std::uint16_t);
  if (raw.size() % width != 0) {
    origin.fail(raw.data(), cat("raw values of ", width, " bytes each take ", raw.size(), " bytes"));
  }
  if (type == kDouble) {
    append({raw}, blob.doubles);
  } else if (type == kFloat) {
    append({raw}, blob.floats);
  } else {
    blob.floats.resize(raw.size() / width);
    for (std::size_t i = 0; i < blob.floats.size(); ++i) {
      std::uint16_t half;
      std::memcpy(&half, raw.data() + i * width, width);
      blob.floats[i] = half_to_float(half);
    }
  }
}

}  // namespace

float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000) << 16;
  const std::uint32_t exponent = (half >> 10) & 0x1f;
  const std::uint32_t fraction = half & 0x3ff;
  if (exponent == 0) {
    // Zero or subnormal: fraction units of 2^-24, exact in single precision.
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  // Infinity and NaN keep the exponent full; all else moves from bias 15 to bias 127.
  const std::uint32_t wide = exponent == 0x1f ? 0xff : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

bool element_count(const std::vector<std::int64_t>& shape, std::uint64_t& count) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 62;
  count = 1;
  bool empty = false;
  for (const std::int64_t axis : shape) {
    if (axis < 0) return false;
    if (axis == 0) empty = true;
    const auto length = static_cast<std::uint64_t>(axis);
    if (length > 0 && count > kMost / length) return false;
    if (length > 0) count *= length;
  }
  if (empty) count = 0;
  return true;
}

BlobData read_blob(std::string_view message, const WireOrigin& origin) {
  Pieces pieces;
  WireReader reader(message, origin);
  while (!reader.done()) {
    reader.read_tag();
    read_field(reader, origin, pieces);
  }

  BlobData blob;
  blob.legacy_shape = pieces.has_legacy;
  if (pieces.has_legacy) {
    blob.shape.assign(pieces.legacy, pieces.legacy + 4);
    if (pieces.is_c3d) blob.shape.push_back(pieces.fifth);
  } else {
    blob.shape = std::move(pieces.dims);
  }
  std::uint64_t count = 0;
  if (!element_count(blob.shape, count)) {
    origin.fail(message.data(), cat("the shape ", shape_text(blob.shape), " is not valid"));
  }

  // Caffe's order of precedence: doubles, floats, raw bytes.
  append(pieces.packed_doubles, pieces.single_doubles);
  append(pieces.packed_floats, pieces.single_floats);
  if (!pieces.single_doubles.empty()) {
    blob.doubles = std::move(pieces.single_doubles);
  } else if (!pieces.single_floats.empty() || !pieces.has_raw) {
    blob.floats = std::move(pieces.single_floats);
  } else {
    decode_raw(pieces, count, origin, blob);
  }
  if (blob.count() != count) {
    origin.fail(message.data(),
                cat("shape ", shape_text(blob.shape), " means ", count, " values, found ", blob.count()));
  }
  return blob;
}

}  // namespace banyan::io
