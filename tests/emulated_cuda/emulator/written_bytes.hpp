// Which bytes of the GPUs' memories something has written.
//
// Separate from the rest of what the check knows of memory, which is 24 times as large and is needed only for
// what kernels use: most is written by copies and libraries, in long ranges.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace emulated {

/// What is known is kept per cell, with a bit for each of its bytes where they differ.
inline constexpr std::size_t kCellBytes = 4;
inline constexpr std::uint8_t kWholeCell = 15;

/// Memory that the system provides, zeroed, where it is touched.
void* map_zeroed(std::size_t bytes);
/// Returns the whole pages among these bytes to the system.
void return_pages(void* memory, std::size_t bytes);

/// Of a GPU's memory, by cell: the bytes that have been written.
std::uint8_t* written_bytes_of(std::size_t gpu);

/// Streams may write different bytes of a cell at the same time.
inline void add_written(std::uint8_t& cell, std::uint8_t bits) {
  if ((cell & bits) != bits) __atomic_fetch_or(&cell, bits, __ATOMIC_RELAXED);
}

inline void remove_written(std::uint8_t& cell, std::uint8_t bits) {
  if ((cell & bits) != 0) __atomic_fetch_and(&cell, static_cast<std::uint8_t>(~bits), __ATOMIC_RELAXED);
}

/// body(cell, its bytes as bits, their place in the range) for each cell; `cells` starts with that of `p`.
template <class AnyCell, class Body>
void for_each_cell(AnyCell* cells, const char* p, std::size_t bytes, const Body& body) {
  std::size_t begin = reinterpret_cast<std::uintptr_t>(p) % kCellBytes;
  for (std::size_t at = 0; at < bytes; begin = 0) {
    const std::size_t length = std::min(kCellBytes - begin, bytes - at);
    body(*cells++, static_cast<std::uint8_t>(((1U << length) - 1) << begin), at);
    at += length;
  }
}

}  // namespace emulated
