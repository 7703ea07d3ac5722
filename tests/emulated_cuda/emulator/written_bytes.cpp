#if defined(EMULATED_CUDA_CHECK)
#include "written_bytes.hpp"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "machine.hpp"

namespace emulated {

namespace {

constexpr std::size_t kPageBytes = 4096;

/// Null: not a GPU's memory.
std::uint8_t* cells_at(const void* real) {
  const int gpu = Memory::get().gpu_of_real(real);
  if (gpu < 0) return nullptr;
  const auto owner = static_cast<std::size_t>(gpu);
  return written_bytes_of(owner) +
         static_cast<std::size_t>(static_cast<const char*>(real) - Memory::get().arena(owner)) / kCellBytes;
}

/// A range of memory as cells: those that it holds entirely are `whole`, others are at its ends.
struct Parts {
  std::size_t before = 0, whole = 0, after = 0;  ///< bytes, cells, bytes
};
Parts parts_of(const void* p, std::size_t bytes) {
  const std::size_t begin = reinterpret_cast<std::uintptr_t>(p) % kCellBytes;
  const std::size_t before = std::min(begin == 0 ? 0 : kCellBytes - begin, bytes);
  return {before, (bytes - before) / kCellBytes, (bytes - before) % kCellBytes};
}

void add_range(std::uint8_t* cells, const char* p, std::size_t bytes) {
  const auto add = [](std::uint8_t& cell, std::uint8_t bits, std::size_t) { add_written(cell, bits); };
  const Parts parts = parts_of(p, bytes);
  for_each_cell(cells, p, parts.before, add);
  if (parts.before > 0) ++cells;
  std::memset(cells, kWholeCell, parts.whole);
  for_each_cell(cells + parts.whole, p + bytes - parts.after, parts.after, add);
}

/// The first byte that was never written; `bytes`: there is none.
std::size_t first_unwritten(const std::uint8_t* cells, const char* p, std::size_t bytes) {
  std::size_t first = bytes;
  const auto look = [&](std::size_t from, std::size_t length) {
    for_each_cell(cells, p + from, length, [&](std::uint8_t cell, std::uint8_t bits, std::size_t at) {
      if ((cell & bits) != bits) first = std::min(first, from + at);
    });
  };
  const Parts parts = parts_of(p, bytes);
  look(0, parts.before);
  if (parts.before > 0) ++cells;
  // All are whole if the first is and each is like the next.
  const bool all =
      parts.whole == 0 || (cells[0] == kWholeCell && std::memcmp(cells, cells + 1, parts.whole - 1) == 0);
  if (!all) look(parts.before, parts.whole * kCellBytes);
  cells += parts.whole;
  look(bytes - parts.after, parts.after);
  return first;
}

}  // namespace

void* map_zeroed(std::size_t bytes) {
  void* memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("emulated CUDA: mmap of what is known of a GPU's memory");
    std::abort();
  }
  return memory;
}

void return_pages(void* memory, std::size_t bytes) {
  const auto begin = (reinterpret_cast<std::uintptr_t>(memory) + kPageBytes - 1) / kPageBytes * kPageBytes;
  const auto end = (reinterpret_cast<std::uintptr_t>(memory) + bytes) / kPageBytes * kPageBytes;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

std::uint8_t* written_bytes_of(std::size_t gpu) {
  static const auto* const kCells = [] {
    auto* cells = new std::vector<std::uint8_t*>;
    for (std::size_t i = 0; i < Memory::get().gpus(); ++i)
      cells->push_back(static_cast<std::uint8_t*>(map_zeroed(kArenaBytes / kCellBytes)));
    return cells;
  }();
  return (*kCells)[gpu];
}

void note_written(char* real, std::size_t bytes) {
  const Quiet quiet;
  if (std::uint8_t* cells = cells_at(real)) add_range(cells, real, bytes);
}

void check_written(const char* real, std::size_t bytes, const char* what) {
  const Quiet quiet;
  const std::uint8_t* cells = cells_at(real);
  if (cells == nullptr) return;
  const std::size_t first = first_unwritten(cells, real, bytes);
  if (first < bytes)
    complain(what, ": memory that was never written, from byte ", first, " of ", bytes, " on");
}

void copy_written(const char* from, char* to, std::size_t bytes) {
  const Quiet quiet;
  const std::uint8_t* source = cells_at(from);
  std::uint8_t* target = cells_at(to);
  if (source == nullptr || first_unwritten(source, from, bytes) == bytes) return note_written(to, bytes);
  note("a copy of memory of which a part was never written: " + running->operation()->name);
  if (target == nullptr) return;
  const std::size_t shift = reinterpret_cast<std::uintptr_t>(from) % kCellBytes;
  const auto is_written = [&](std::size_t byte) {
    return (source[(shift + byte) / kCellBytes] >> (shift + byte) % kCellBytes & 1) != 0;
  };
  for_each_cell(target, to, bytes, [&](std::uint8_t& cell, std::uint8_t bits, std::size_t at) {
    std::uint8_t copied = 0;
    for (unsigned i = 0; i < kCellBytes; ++i)
      if ((bits >> i & 1) != 0 && is_written(at++)) copied = static_cast<std::uint8_t>(copied | 1U << i);
    remove_written(cell, static_cast<std::uint8_t>(bits & ~copied));
    add_written(cell, copied);
  });
}

}  // namespace emulated
#endif
