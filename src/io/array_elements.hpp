// Types of numbers in safetensors and .npy files.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "banyan/io/weights.hpp"

namespace banyan::io {

struct ElementType {
  const char* safetensors;  ///< "F32"
  const char* npy;          ///< "<f4"; null: NumPy has no such type
  std::size_t width;        ///< bytes
  /// Appends the numbers of `bytes`, a multiple of `width` long, to `blob`.
  void (*decode)(std::string_view bytes, BlobData& blob);
};

/// Null: there is no such type.
const ElementType* element_type_of_safetensors(std::string_view name);
const ElementType* element_type_of_npy(std::string_view name);
/// F32 or F64.
const ElementType& element_type_of(const BlobData& blob);

/// The values' bytes.
std::string_view bytes_of(const BlobData& blob);

/// Little-endian, at `at`; the caller has checked that it is inside.
template <class T>
T number_at(std::string_view bytes, std::size_t at) {
  T value = 0;
  for (std::size_t i = sizeof(T); i-- > 0;)
    value = static_cast<T>(value << 8 | static_cast<unsigned char>(bytes[at + i]));
  return value;
}
template <class T>
void append_number(std::string& bytes, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) bytes.push_back(static_cast<char>(value >> 8 * i & 0xff));
}

}  // namespace banyan::io
