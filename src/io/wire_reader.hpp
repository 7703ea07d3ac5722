// Protobuf's wire format, read field by field without a schema. Every read is checked against the end of the
// message, which lies inside the end of the file; a length is accepted only if that many bytes are there.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "banyan/base/error.hpp"

namespace banyan::io {

enum class WireType { varint = 0, fixed64 = 1, bytes = 2, group_begin = 3, group_end = 4, fixed32 = 5 };

/// Reports where in which file something is wrong.
struct WireOrigin {
  const char* begin;        // first byte of the file
  const std::string& name;  // of the file
  std::string place;        // such as `layer "conv1"`, may be empty

  [[noreturn]] void fail(const char* at, const std::string& what) const {
    bad_input(name, ": byte ", at - begin, place.empty() ? "" : ", " + place, ": ", what);
  }
};

class WireReader {
 public:
  WireReader(std::string_view message, const WireOrigin& origin)
      : next_(message.data()), end_(message.data() + message.size()), origin_(origin) {}

  bool done() const { return next_ == end_; }
  const char* position() const { return next_; }

  /// Moves to the next field and reads its tag.
  void read_tag() {
    field_begin_ = next_;
    const std::uint64_t tag = read_varint();
    number_ = tag >> 3;
    if (number_ == 0 || tag > 0xffffffffu)
      fail("the field number is not valid: the file is damaged or another kind of file");
    const auto wire = static_cast<int>(tag & 7);
    if (wire == 3 || wire == 4 || wire > 5) {
      fail(cat("field ", number_, " has wire type ", wire, ", which no such file contains"));
    }
    type_ = static_cast<WireType>(wire);
  }
  std::uint64_t number() const { return number_; }
  WireType type() const { return type_; }
  bool is(std::uint64_t number, WireType type) const { return number_ == number && type_ == type; }

  std::uint64_t read_varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      if (next_ == end_) cut_off(1);
      const auto byte = static_cast<unsigned char>(*next_++);
      if (shift < 64) value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) return value;
    }
    fail("a number has more than 10 bytes");
  }

  std::string_view read_bytes() {
    const std::uint64_t length = read_varint();
    if (length > left()) cut_off(length);
    const std::string_view bytes(next_, static_cast<std::size_t>(length));
    next_ += length;
    return bytes;
  }

  template <class T>  // float, double: the wire is little-endian, as are the machines this runs on
  T read_fixed() {
    if (sizeof(T) > left()) cut_off(sizeof(T));
    T value;
    std::memcpy(&value, next_, sizeof(T));
    next_ += sizeof(T);
    return value;
  }

  /// Skips the value of the current field.
  void skip() {
    switch (type_) {
      case WireType::varint:
        read_varint();
        break;
      case WireType::fixed64:
        read_fixed<std::uint64_t>();
        break;
      case WireType::bytes:
        read_bytes();
        break;
      case WireType::fixed32:
        read_fixed<std::uint32_t>();
        break;
      default:
        fail("groups are not used in such files");
    }
  }

  [[noreturn]] void fail(const std::string& what) const { origin_.fail(field_begin_, what); }

 private:
  std::uint64_t left() const { return static_cast<std::uint64_t>(end_ - next_); }
  [[noreturn]] void cut_off(std::uint64_t wanted) const {
    origin_.fail(next_, cat("expected ", wanted, " more byte", wanted == 1 ? "" : "s", ", found ", left(),
                            ": the file is truncated or damaged"));
  }

  const char* next_;
  const char* end_;
  const char* field_begin_ = next_;
  std::uint64_t number_ = 0;
  WireType type_ = WireType::varint;
  const WireOrigin& origin_;
};

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "packed numbers are copied as they are");

}  // namespace banyan::io
