#include "array_elements.hpp"

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "blob_reader.hpp"

namespace banyan::io {
namespace {

static_assert(std::endian::native == std::endian::little);

/// Stored numbers of type T, as `Convert` of each.
template <class T, auto Convert>
void decode(std::string_view bytes, BlobData& blob) {
  using To = decltype(Convert(T()));
  auto& values = [&]() -> auto& {
    if constexpr (std::is_same_v<To, double>)
      return blob.doubles;
    else
      return blob.floats;
  }
  ();
  const std::size_t count = bytes.size() / sizeof(T);
  values.reserve(values.size() + count);
  for (std::size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    values.push_back(Convert(value));
  }
}

template <class T>
double whole(T value) {
  return static_cast<double>(value);
}
double same_double(double value) { return value; }
float same_float(float value) { return value; }
float from_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

constexpr ElementType kTypes[] = {
    {"F64", "<f8", 8, decode<double, same_double>},
    {"F32", "<f4", 4, decode<float, same_float>},
    {"F16", "<f2", 2, decode<std::uint16_t, half_to_float>},
    {"BF16", nullptr, 2, decode<std::uint16_t, from_bfloat16>},
    {"I64", "<i8", 8, decode<std::int64_t, whole<std::int64_t>>},
    {"I32", "<i4", 4, decode<std::int32_t, whole<std::int32_t>>},
    {"I16", "<i2", 2, decode<std::int16_t, whole<std::int16_t>>},
    {"I8", "|i1", 1, decode<std::int8_t, whole<std::int8_t>>},
    {"U64", "<u8", 8, decode<std::uint64_t, whole<std::uint64_t>>},
    {"U32", "<u4", 4, decode<std::uint32_t, whole<std::uint32_t>>},
    {"U16", "<u2", 2, decode<std::uint16_t, whole<std::uint16_t>>},
    {"U8", "|u1", 1, decode<std::uint8_t, whole<std::uint8_t>>},
    {"BOOL", "|b1", 1, decode<std::uint8_t, whole<std::uint8_t>>},
};

template <class Name>
const ElementType* find(std::string_view name, Name name_of) {
  for (const ElementType& type : kTypes)
    if (name_of(type) != nullptr && name == name_of(type)) return &type;
  return nullptr;
}

}  // namespace

const ElementType* element_type_of_safetensors(std::string_view name) {
  return find(name, [](const ElementType& type) { return type.safetensors; });
}

const ElementType* element_type_of_npy(std::string_view name) {
  return find(name, [](const ElementType& type) { return type.npy; });
}

const ElementType& element_type_of(const BlobData& blob) { return kTypes[blob.is_double() ? 0 : 1]; }

std::string_view bytes_of(const BlobData& blob) {
  if (blob.is_double())
    return {reinterpret_cast<const char*>(blob.doubles.data()), blob.doubles.size() * sizeof(double)};
  return {reinterpret_cast<const char*>(blob.floats.data()), blob.floats.size() * sizeof(float)};
}

}  // namespace banyan::io
