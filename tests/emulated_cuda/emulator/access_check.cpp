// Does the memory belong to the GPU, entirely and still? Is the access aligned? Has the memory been written?
// Does another CUDA thread of the launch use it without a barrier between? Is it ordered with the work of
// other streams that use it?
#if defined(EMULATED_CUDA_CHECK)
#include "access_check.hpp"

#include <array>
#include <map>

#include "kernel.hpp"
#include "machine.hpp"
#include "written_bytes.hpp"

namespace emulated {

namespace {

constexpr std::size_t kPageBytes = 4096;

/// Who of a launch uses a piece of memory.
struct Use {
  std::uint32_t writer = 0, reader = 0;  ///< the latest CUDA thread of the launch, from 1; 0: none
  std::uint16_t writer_epoch = 0, reader_epoch = 0;  ///< earlier barriers of its block
  bool several_readers = false;                      ///< in one block, since the same barrier
  bool readers_in_several_blocks = false;
};
using UsesOfBytes = std::array<Use, kCellBytes>;

/// What is known about 4 bytes of device or shared memory.
struct Cell {
  std::uint32_t launch = 0;  ///< to which the rest applies (shared memory: the block's number in the process)
  Use use;  ///< of all 4 bytes; if they are split, `use.writer` says where their own uses are
  // One bit per byte.
  std::uint8_t reads = 0, writes = 0;  ///< of the launch
  bool split = false;                  ///< something has used a part of the cell
};
// It is there for each 4 bytes that a launch touches: bytes with uses of their own are rare, and kept
// elsewhere.
static_assert(sizeof(Cell) == 24);

/// Cells and pages of a GPU's memory.
struct Shadow {
  Cell* cells = nullptr;
  std::uint8_t* written = nullptr;  ///< ever, by cell
  std::uint32_t* pages = nullptr;   ///< the latest launch that touched each
};

/// An allocation that the launch may use, by real addresses.
struct Usable {
  std::size_t gpu = 0;
  const char *arena = nullptr, *begin = nullptr, *end = nullptr;
  bool holds(const char* p, std::size_t bytes) const { return p >= begin && p + bytes <= end; }
};

/// The running launch; only one at a time.
struct Launch {
  std::mutex one_at_a_time;
  std::vector<Shadow> shadows;
  Running* now = nullptr;
  std::uint32_t number = 0;
  Constant arguments;
  std::uint32_t threads_per_block = 0;
  std::uint32_t first_thread = 0;  ///< of the block, in the launch, from 1
  std::uint16_t epoch = 0;
  std::vector<std::vector<std::uintptr_t>> pages;  ///< touched, by GPU
  std::vector<Usable> known;                       ///< used by this launch
  std::size_t latest = 0;
  std::vector<UsesOfBytes> split;   ///< of the GPUs' cells
  std::uint32_t blocks_so_far = 0;  ///< in the process
  struct Shared {
    const char* begin;
    std::size_t bytes;
    std::vector<Cell> cells;
    std::vector<std::uint8_t> written;
    std::vector<UsesOfBytes> split;
  };
  std::vector<Shared> shared;
  std::map<std::pair<std::string, std::string>, int> told;
};
constinit Launch* the_launch = nullptr;  // made by shadows(), never destroyed
Launch& launch() { return *the_launch; }

// Each access reads these, so without a call for their addresses, like `builtins`.
#define EMULATED_QUICK __attribute__((tls_model("initial-exec")))
thread_local bool inside EMULATED_QUICK = false;  // the host thread is running CUDA threads
thread_local const char* stack_low EMULATED_QUICK = nullptr;
thread_local const char* stack_high EMULATED_QUICK = nullptr;
#undef EMULATED_QUICK

/// NotChecked without a call.
struct Unchecked {
  Unchecked() { inside = false; }
  ~Unchecked() { inside = true; }
};

std::vector<Shadow>& shadows() {
  static const bool kMade = [] {
    Launch& l = *new Launch;
    for (std::size_t i = 0; i < Memory::get().gpus(); ++i)
      l.shadows.push_back(
          {static_cast<Cell*>(map_zeroed(kArenaBytes / kCellBytes * sizeof(Cell))), written_bytes_of(i),
           static_cast<std::uint32_t*>(map_zeroed(kArenaBytes / kPageBytes * sizeof(std::uint32_t)))});
    l.pages.resize(l.shadows.size());
    the_launch = &l;
    return true;
  }();
  static_cast<void>(kMade);
  return launch().shadows;
}

std::string describe(const Launch& l, const void* address) {
  const char* p = static_cast<const char*>(address);
  for (const auto& array : l.shared)
    if (p >= array.begin && p < array.begin + array.bytes) {
      std::ostringstream out;
      out << "byte " << p - array.begin << " of shared memory of " << array.bytes << " bytes";
      return out.str();
    }
  const int gpu = Memory::get().gpu_of_real(address);
  if (gpu < 0) return Memory::get().describe(address);
  const auto owner = static_cast<std::size_t>(gpu);
  const auto offset = static_cast<std::uintptr_t>(p - Memory::get().arena(owner));
  return Memory::get().describe(device_address(owner, offset));
}

[[gnu::noinline]] void found(const char* what, const void* address, std::size_t bytes, bool write) {
  Launch& l = launch();
  if (++l.told[{l.now->operation()->name, what}] <= 3) {
    complain("CUDA thread ", builtins.thread.x, " ", builtins.thread.y, " ", builtins.thread.z, " of block ",
             builtins.block.x, " ", builtins.block.y, " ", builtins.block.z, ": ", write ? "write" : "read",
             " of ", bytes, " bytes: ", what, ": ", describe(l, address));
  }
}

std::uint32_t this_thread() {
  const unsigned in_block =
      builtins.thread.x + builtins.threads.x * (builtins.thread.y + builtins.threads.y * builtins.thread.z);
  return launch().first_thread + in_block;
}
bool of_this_block(std::uint32_t thread) {
  return thread - launch().first_thread < launch().threads_per_block;
}

// Both return what is wrong; null: nothing.
const char* write_use(Use& u, std::uint32_t me, std::uint16_t epoch) {
  const char* wrong = nullptr;
  if (u.reader != 0) {
    const bool other = u.reader != me || u.several_readers;
    if (u.readers_in_several_blocks || !of_this_block(u.reader) || (other && u.reader_epoch == epoch))
      wrong = "another thread of the launch reads it, without a barrier between";
  }
  if (u.writer != 0 && u.writer != me && !(of_this_block(u.writer) && u.writer_epoch != epoch))
    wrong = "another thread of the launch writes it too, without a barrier between";
  u.writer = me;
  u.writer_epoch = epoch;
  return wrong;
}

const char* read_use(Use& u, std::uint32_t me, std::uint16_t epoch) {
  const char* wrong = nullptr;
  if (u.writer != 0 && u.writer != me && !(of_this_block(u.writer) && u.writer_epoch != epoch))
    wrong = "another thread of the launch writes it, without a barrier between";
  if (u.reader != 0 && !of_this_block(u.reader)) u.readers_in_several_blocks = true;
  u.several_readers = u.reader != 0 && u.reader_epoch == epoch && (u.several_readers || u.reader != me);
  u.reader = me;
  u.reader_epoch = epoch;
  return wrong;
}

/// Likewise, for the bytes of a cell that are set in `bits`.
const char* use_cell(Cell& c, std::vector<UsesOfBytes>& split, std::uint8_t bits, std::uint32_t me,
                     bool write) {
  const std::uint16_t epoch = launch().epoch;
  const auto use = [&](Use& u) { return write ? write_use(u, me, epoch) : read_use(u, me, epoch); };
  if (bits == kWholeCell && !c.split) [[likely]]
    return use(c.use);
  if (!c.split) {
    UsesOfBytes each;
    each.fill(c.use);
    c.use.writer = static_cast<std::uint32_t>(split.size());
    c.split = true;
    split.push_back(each);
  }
  const char* wrong = nullptr;
  for (std::size_t i = 0; i < kCellBytes; ++i)
    if ((bits >> i & 1) != 0)
      if (const char* of_byte = use(split[c.use.writer][i])) wrong = of_byte;
  return wrong;
}

/// `tag`: whose accesses count.
void use_cells(Cell* cells, std::uint8_t* written, std::vector<UsesOfBytes>& split, std::uint32_t tag,
               const char* p, std::size_t bytes, bool write, bool shared) {
  const std::uint32_t me = this_thread();
  for_each_cell(cells, p, bytes, [&](Cell& c, std::uint8_t bits, std::size_t at) {
    if (c.launch != tag) {
      c = Cell{};
      c.launch = tag;
    }
    std::uint8_t& already = *written++;
    if (!write && (already & bits) != bits)
      found(shared ? "shared memory that the block has not written" : "never written", p + at, bytes, false);
    if (const char* wrong = use_cell(c, split, bits, me, write)) found(wrong, p + at, bytes, write);
    std::uint8_t& used = write ? c.writes : c.reads;
    used = static_cast<std::uint8_t>(used | bits);
    if (write) add_written(already, bits);
  });
}

/// The live allocation that holds all these bytes of a GPU's memory; null: there is none, or the running GPU
/// may not use it, which has been reported.
const Usable* find_usable(Launch& l, std::size_t gpu, const char* p, std::size_t bytes, bool write) {
  const char* const arena = Memory::get().arena(gpu);
  std::uintptr_t begin = 0, end = 0;
  if (!Memory::get().find_live(gpu, static_cast<std::uintptr_t>(p - arena), bytes, &begin, &end)) {
    found("out of bounds, or freed", p, bytes, write);
    return nullptr;
  }
  if (!Memory::get().peer_enabled(l.now->gpu(), static_cast<int>(gpu))) {
    found("memory of another GPU, without peer access", p, bytes, write);
    return nullptr;
  }
  l.latest = l.known.size();
  l.known.push_back({gpu, arena, arena + begin, arena + end});
  return &l.known.back();
}

/// The same among those that the launch has used before; null: it is not there.
const Usable* find_known(Launch& l, const char* p, std::size_t bytes) {
  if (l.latest < l.known.size() && l.known[l.latest].holds(p, bytes)) return &l.known[l.latest];
  for (std::size_t i = 0; i < l.known.size(); ++i)
    if (l.known[i].holds(p, bytes)) return &l.known[l.latest = i];
  return nullptr;
}

bool within(const char* p, std::size_t bytes, const void* begin, std::size_t length) {
  const char* from = static_cast<const char*>(begin);
  return p >= from && p + bytes <= from + length;
}

void use_elsewhere(Launch& l, const char* p, std::size_t bytes, bool write) {
  for (auto& array : l.shared) {
    if (p < array.begin || p >= array.begin + array.bytes) continue;
    if (p + bytes > array.begin + array.bytes) return found("beyond a shared array", p, bytes, write);
    const std::size_t cell = static_cast<std::size_t>(p - array.begin) / kCellBytes;
    return use_cells(&array.cells[cell], &array.written[cell], array.split, l.blocks_so_far, p, bytes, write,
                     true);
  }
  if (!write && within(p, bytes, &builtins, sizeof(builtins))) return;
  const bool pinned = Memory::get().is_pinned(p, bytes);
  if (pinned)
    l.now->order(p, bytes, write);
  else
    found("memory that is neither the GPU's nor shared nor the thread's own", p, bytes, write);
}

/// Memory that the launch has not used before, or that is no GPU's; null: all is said.
const Usable* find_new(Launch& l, const char* p, std::size_t bytes, bool write) {
  if (is_device_address(p)) {  // not translated by the launch
    const std::string why = Memory::get().why_not(p, bytes, l.now->gpu());
    found(why.empty() ? "an address that did not come with the launch" : why.c_str(), p, bytes, write);
    return nullptr;
  }
  const int owner = Memory::get().gpu_of_real(p);
  if (owner >= 0) return find_usable(l, static_cast<std::size_t>(owner), p, bytes, write);
  use_elsewhere(l, p, bytes, write);
  return nullptr;
}

void access(const void* where, std::size_t bytes, bool write, bool aligned) {
  if (!inside) {
    if (is_device_address(where)) complain("the host uses device memory: ", Memory::get().describe(where));
    return;
  }
  const char* p = static_cast<const char*>(where);
  if (p >= stack_low && p < stack_high) return;
  const Unchecked unchecked;
  Launch& l = launch();
  if (aligned && reinterpret_cast<std::uintptr_t>(p) % bytes != 0) found("not aligned", p, bytes, write);
  if (!write && within(p, bytes, l.arguments.begin, l.arguments.bytes)) return;
  const Usable* usable = find_known(l, p, bytes);
  if (usable == nullptr) usable = find_new(l, p, bytes, write);
  if (usable == nullptr) return;
  const Shadow& shadow = l.shadows[usable->gpu];
  const auto offset = static_cast<std::uintptr_t>(p - usable->arena);
  std::uint32_t& page = shadow.pages[offset / kPageBytes];
  if (page != l.number) {
    page = l.number;
    l.pages[usable->gpu].push_back(offset / kPageBytes);
  }
  use_cells(shadow.cells + offset / kCellBytes, shadow.written + offset / kCellBytes, l.split, l.number, p,
            bytes, write, false);
}

/// Reports to the history what the launch has read and written, as ranges.
void tell_history(Launch& l, std::size_t gpu, std::uint64_t* read, std::uint64_t* written) {
  std::vector<std::uintptr_t>& pages = l.pages[gpu];
  std::sort(pages.begin(), pages.end());
  for (const bool write : {false, true}) {
    std::uintptr_t begin = 0, end = 0;
    const auto close = [&] {
      if (end > begin) l.now->order(device_address(gpu, begin), end - begin, write);
      *(write ? written : read) += end - begin;
    };
    for (const std::uintptr_t page : pages) {
      for (std::uintptr_t offset = page * kPageBytes; offset < (page + 1) * kPageBytes;
           offset += kCellBytes) {
        const Cell& c = l.shadows[gpu].cells[offset / kCellBytes];
        const unsigned bits = c.launch == l.number ? write ? c.writes : c.reads : 0;
        if (bits == 0) continue;
        if (bits == kWholeCell && offset == end) {
          end += kCellBytes;
          continue;
        }
        for (unsigned i = 0; i < kCellBytes; ++i) {
          if ((bits >> i & 1) == 0) continue;
          if (offset + i != end) {
            close();
            begin = offset + i;
          }
          end = offset + i + 1;
        }
      }
    }
    close();
  }
  pages.clear();
}

}  // namespace

void check_pages_freed(std::size_t gpu, std::uintptr_t begin, std::uintptr_t end) {
  const Shadow& shadow = shadows()[gpu];
  const std::size_t cells = (end - begin) / kCellBytes;
  return_pages(shadow.cells + begin / kCellBytes, cells * sizeof(Cell));
  return_pages(shadow.written + begin / kCellBytes, cells);
}

void check_launch_begins(Running& now, const Constant& arguments) {
  shadows();
  Launch& l = launch();
  l.one_at_a_time.lock();
  ++l.number;
  l.now = &now;
  l.arguments = arguments;
  l.known.clear();
  l.latest = 0;
}

void check_launch_ends() {
  Launch& l = launch();
  std::uint64_t read = 0, written = 0;
  for (std::size_t gpu = 0; gpu < l.shadows.size(); ++gpu) tell_history(l, gpu, &read, &written);
  count("kernel bytes read", read);
  count("kernel bytes written", written);
  // By size: a small launch takes a launch's time, a large one the time for its bytes.
  int size = 0;
  while ((std::uint64_t{1} << size) < read + written) ++size;
  const std::string bucket = "kernels of up to 2^" + std::to_string(size) + " bytes";
  count(bucket + ", launches");
  count(bucket + ", bytes", read + written);
  l.split = {};  // with its memory
  l.now = nullptr;
  l.one_at_a_time.unlock();
}

void check_block_begins(unsigned long long block) {
  Launch& l = launch();
  l.threads_per_block = builtins.threads.x * builtins.threads.y * builtins.threads.z;
  l.first_thread = static_cast<std::uint32_t>(block * l.threads_per_block) + 1;
  l.epoch = 0;
  ++l.blocks_so_far;
  l.shared.clear();
}

void check_barrier() { ++launch().epoch; }

void check_threads_begin(const void* low, const void* high) {
  stack_low = static_cast<const char*>(low);
  stack_high = static_cast<const char*>(high);
  inside = true;
}
void check_threads_end() { inside = false; }

NotChecked::NotChecked() { inside = false; }
NotChecked::~NotChecked() { inside = true; }

void check_shared(char* memory, std::size_t bytes) {
  const std::size_t cells = (bytes + kCellBytes - 1) / kCellBytes;
  launch().shared.push_back({memory, bytes, std::vector<Cell>(cells), std::vector<std::uint8_t>(cells), {}});
}

}  // namespace emulated

// The calls that the compiler makes, by their names in its documentation of -fsanitize=thread.
extern "C" {

#define EMULATED_ACCESS(BYTES)                                                             \
  void __tsan_read##BYTES(void* p) { emulated::access(p, BYTES, false, true); }            \
  void __tsan_write##BYTES(void* p) { emulated::access(p, BYTES, true, true); }            \
  void __tsan_unaligned_read##BYTES(void* p) { emulated::access(p, BYTES, false, false); } \
  void __tsan_unaligned_write##BYTES(void* p) { emulated::access(p, BYTES, true, false); } \
  void __tsan_volatile_read##BYTES(void* p) { emulated::access(p, BYTES, false, true); }   \
  void __tsan_volatile_write##BYTES(void* p) { emulated::access(p, BYTES, true, true); }
EMULATED_ACCESS(1)
EMULATED_ACCESS(2)
EMULATED_ACCESS(4)
EMULATED_ACCESS(8)
EMULATED_ACCESS(16)
#undef EMULATED_ACCESS
void __tsan_read_range(void* p, unsigned long bytes) { emulated::access(p, bytes, false, false); }
void __tsan_write_range(void* p, unsigned long bytes) { emulated::access(p, bytes, true, false); }
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}

// Called by host code in the same files.
#define EMULATED_ATOMIC(BITS, TYPE)                                     \
  TYPE __tsan_atomic##BITS##_load(const volatile TYPE* p, int) {        \
    return __atomic_load_n(p, __ATOMIC_SEQ_CST);                        \
  }                                                                     \
  void __tsan_atomic##BITS##_store(volatile TYPE* p, TYPE v, int) {     \
    __atomic_store_n(p, v, __ATOMIC_SEQ_CST);                           \
  }                                                                     \
  TYPE __tsan_atomic##BITS##_fetch_add(volatile TYPE* p, TYPE v, int) { \
    return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST);                  \
  }                                                                     \
  TYPE __tsan_atomic##BITS##_fetch_sub(volatile TYPE* p, TYPE v, int) { \
    return __atomic_fetch_sub(p, v, __ATOMIC_SEQ_CST);                  \
  }
EMULATED_ATOMIC(8, unsigned char)
EMULATED_ATOMIC(32, int)
EMULATED_ATOMIC(64, long)
#undef EMULATED_ATOMIC

}  // extern "C"
#endif
