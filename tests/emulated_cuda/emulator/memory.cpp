#include "memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "access_check.hpp"
#include "machine.hpp"

#if defined(EMULATED_CUDA_ASAN)
#include <sanitizer/asan_interface.h>
#endif

namespace emulated {

namespace {

constexpr std::size_t kGap = 4096;                     // minimum, after an allocation
constexpr std::size_t kFilled = std::size_t{4} << 20;  // at each end of an allocation: NaNs

void poison([[maybe_unused]] const void* memory, [[maybe_unused]] std::size_t bytes) {
#if defined(EMULATED_CUDA_ASAN)
  __asan_poison_memory_region(memory, bytes);
#endif
}
void unpoison([[maybe_unused]] const void* memory, [[maybe_unused]] std::size_t bytes) {
#if defined(EMULATED_CUDA_ASAN)
  __asan_unpoison_memory_region(memory, bytes);
#endif
}

/// By the setting; a GPU always reaches itself.
bool possible_peer(const std::string& peers, std::size_t reader, std::size_t owner) {
  if (reader == owner) return true;
  if (peers == "all") return true;
  if (peers == "none") return false;
  if (peers == "islands") return reader / 2 == owner / 2;
  if (peers == "one_way") return reader < owner;
  std::istringstream rows(peers);
  std::string row;
  for (std::size_t i = 0; std::getline(rows, row, '/'); ++i)
    if (i == reader) return owner < row.size() && row[owner] == '1';
  return false;
}

}  // namespace

Memory& Memory::get() {
  static Memory* const kMemory = new Memory;  // never destroyed: streams' threads may outlive main
  return *kMemory;
}

Memory::Memory() : gpus_(static_cast<std::size_t>(settings().gpus)) {
  for (std::size_t i = 0; i < gpus_.size(); ++i) {
    void* arena = mmap(nullptr, kArenaBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena == MAP_FAILED) {
      std::perror("emulated CUDA: mmap of a GPU's memory");
      std::abort();
    }
    gpus_[i].arena = static_cast<char*>(arena);
    gpus_[i].peers.assign(gpus_.size(), false);
    possible_peers_.emplace_back();
    for (std::size_t owner = 0; owner < gpus_.size(); ++owner)
      possible_peers_[i].push_back(possible_peer(settings().peers, i, owner));
  }
}

void* Memory::allocate(int ordinal, std::size_t bytes) {
  const Quiet quiet;
  std::vector<void*> stack = settings().stacks ? take_stack() : std::vector<void*>();
  const std::lock_guard<std::mutex> lock(mutex_);
  Gpu& gpu = gpus_[ordinal];
  if (bytes > settings().memory || gpu.used + bytes > settings().memory) return nullptr;
  const std::uintptr_t offset = gpu.next + 256;
  gpu.next = (offset + bytes + kGap + 4095) / 4096 * 4096;
  if (gpu.next > kArenaBytes) {
    std::fprintf(stderr, "emulated CUDA: the addresses of gpu:%d are used up\n", ordinal);
    std::abort();
  }
  gpu.used += bytes;
  gpu.allocations[offset] = {offset, bytes, ++allocations_made_, true, std::move(stack)};
  char* memory = gpu.arena + offset;
  poison(memory - 256, 256);
  unpoison(memory, bytes);
  poison(memory + bytes, gpu.next - offset - bytes);
  std::memset(memory, 0xFF, std::min(bytes, kFilled));
  if (bytes > kFilled) std::memset(memory + bytes - kFilled, 0xFF, kFilled);
  return device_address(static_cast<std::size_t>(ordinal), offset);
}

namespace {

std::shared_ptr<const VectorClock> known_to_the_host() {
  const Quiet quiet;
  const std::lock_guard<std::mutex> lock(Machine::get().mutex);
  return Machine::get().host;
}

}  // namespace

bool Memory::release(void* address) {
  const Quiet quiet;
  std::size_t bytes = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (is_device_address(address) && gpu_of_address(address) < gpus_.size()) {
      Gpu& gpu = gpus_[gpu_of_address(address)];
      const auto it = gpu.allocations.find(offset_of_address(address));
      if (it != gpu.allocations.end() && it->second.live) {
        Allocation& a = it->second;
        a.live = false;
        gpu.used -= a.bytes;
        char* memory = gpu.arena + a.offset;
        poison(memory, a.bytes);
        // Returns its pages, which hold nothing else (see allocate), to the system.
        const std::uintptr_t begin = a.offset / 4096 * 4096, end = (a.offset + a.bytes + 4095) / 4096 * 4096;
#if defined(EMULATED_CUDA_TSAN)
        munmap(gpu.arena + begin, end - begin);  // with what ThreadSanitizer knows; no address is used twice
#else
        madvise(gpu.arena + begin, end - begin, MADV_DONTNEED);
#endif
#if defined(EMULATED_CUDA_CHECK)
        check_pages_freed(gpu_of_address(address), begin, end);
#endif
        bytes = a.bytes;
      }
    }
  }
  if (bytes > 0) {
    const auto from = reinterpret_cast<std::uintptr_t>(address);
    history_.forget(from, from + bytes, *known_to_the_host());
    return true;
  }
  complain("cudaFree of what is not allocated: ", describe(address));
  return false;
}

std::size_t Memory::used(int gpu) {
  const Quiet quiet;
  const std::lock_guard<std::mutex> lock(mutex_);
  return gpus_[gpu].used;
}

void Memory::pin(void* memory, std::size_t bytes) {
  const Quiet quiet;
  const std::lock_guard<std::mutex> lock(mutex_);
  pinned_[reinterpret_cast<std::uintptr_t>(memory)] = bytes;
}

bool Memory::unpin(void* memory, std::size_t* bytes) {
  const Quiet quiet;
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = pinned_.find(begin);
    if (it == pinned_.end()) return false;
    *bytes = it->second;
    pinned_.erase(it);
  }
  history_.forget(begin, begin + *bytes, *known_to_the_host());
  return true;
}

bool Memory::is_pinned(const void* memory, std::size_t bytes) {
  const Quiet quiet;
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto at = reinterpret_cast<std::uintptr_t>(memory);
  auto it = pinned_.upper_bound(at);
  if (it == pinned_.begin()) return false;
  --it;
  return at + bytes <= it->first + it->second;
}

bool Memory::can_access(int reader, int owner) const { return possible_peers_[reader][owner]; }

bool Memory::enable_peer(int reader, int owner) {
  const Quiet quiet;
  const std::lock_guard<std::mutex> lock(mutex_);
  auto& peers = gpus_[reader].peers;
  if (peers[owner]) return false;
  peers[owner] = true;
  return true;
}

bool Memory::peer_enabled(int reader, int owner) {
  if (reader == owner) return true;
  const Quiet quiet;
  const std::lock_guard<std::mutex> lock(mutex_);
  return gpus_[reader].peers[owner];
}

const Allocation* Memory::around(const Gpu& gpu, std::uintptr_t offset) const {
  auto it = gpu.allocations.upper_bound(offset);
  return it == gpu.allocations.begin() ? nullptr : &(--it)->second;
}

std::string Memory::why_not(const void* address, std::size_t bytes, int user) {
  if (!is_device_address(address)) {
    if (address == nullptr) return "a null pointer";
    return user >= 0 && !is_pinned(address, bytes) ? "host memory that is not pinned" : "";
  }
  const Quiet quiet;
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::size_t owner = gpu_of_address(address);
  if (owner >= gpus_.size()) return "no such GPU";
  const std::uintptr_t offset = offset_of_address(address);
  const Allocation* a = around(gpus_[owner], offset);
  if (a == nullptr) return "not allocated";
  if (!a->live) return "freed";
  if (offset + bytes > a->offset + a->bytes) return "out of bounds";
  if (user >= 0 && static_cast<std::size_t>(user) != owner && !gpus_[user].peers[owner])
    return "memory of another GPU, without peer access";
  return "";
}

char* Memory::real(const void* address) const {
  if (!is_device_address(address)) return const_cast<char*>(static_cast<const char*>(address));
  return gpus_[gpu_of_address(address)].arena + offset_of_address(address);
}

int Memory::gpu_of_real(const void* real) const {
  const char* at = static_cast<const char*>(real);
  for (std::size_t i = 0; i < gpus_.size(); ++i)
    if (at >= gpus_[i].arena && at < gpus_[i].arena + kArenaBytes) return static_cast<int>(i);
  return -1;
}

bool Memory::find_live(std::size_t gpu, std::uintptr_t offset, std::size_t bytes, std::uintptr_t* begin,
                       std::uintptr_t* end) {
  const Quiet quiet;
  const std::lock_guard<std::mutex> lock(mutex_);
  const Allocation* a = around(gpus_[gpu], offset);
  if (a == nullptr || !a->live || offset + bytes > a->offset + a->bytes) return false;
  *begin = a->offset;
  *end = a->offset + a->bytes;
  return true;
}

std::string Memory::describe(const void* address) {
  std::ostringstream out;
  if (!is_device_address(address)) {
    out << (is_pinned(address, 1) ? "pinned host memory " : "host memory ") << address;
    return out.str();
  }
  const Quiet quiet;
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::size_t owner = gpu_of_address(address);
  const std::uintptr_t offset = offset_of_address(address);
  const Allocation* a = owner < gpus_.size() ? around(gpus_[owner], offset) : nullptr;
  if (a == nullptr) {
    out << "device memory " << address << ", where nothing was allocated";
    return out.str();
  }
  out << "byte " << offset - a->offset << " of allocation " << a->number << " (" << a->bytes << " bytes"
      << (a->live ? "" : ", freed") << ") of gpu:" << owner;
  if (!a->stack.empty()) out << ", allocated by:\n" << describe_stack(a->stack);
  return out.str();
}

std::string Memory::leftovers() {
  const Quiet quiet;
  std::ostringstream out;
  std::string comma;
  const auto add = [&](std::uint64_t number, const std::string& what) {
    if (number == 0) return;
    out << comma << number << " " << what;
    comma = ", ";
  };
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (std::size_t i = 0; i < gpus_.size(); ++i) {
      if (is_broken(static_cast<int>(i))) continue;
      std::uint64_t number = 0;
      for (const auto& [offset, a] : gpus_[i].allocations) number += a.live ? 1 : 0;
      add(number, "allocations (" + std::to_string(gpus_[i].used) + " bytes) of gpu:" + std::to_string(i));
    }
    add(pinned_.size(), "blocks of pinned memory");
  }
  Machine& m = Machine::get();
  const std::lock_guard<std::mutex> lock(m.mutex);
  const auto of_working = [](const auto& things) {
    std::uint64_t number = 0;
    for (const auto* thing : things) number += is_broken(thing->device) ? 0 : 1;
    return number;
  };
  std::uint64_t defaults = 0;
  for (const Stream* stream : m.default_streams)
    defaults += stream != nullptr && !is_broken(stream->device) ? 1 : 0;
  add(of_working(m.streams) - defaults, "streams");
  add(of_working(m.events), "events");
  add(m.graphs, "graphs");
  add(m.executables, "executable graphs");
  add(m.handles, "handles and descriptors of cuBLAS and cuDNN");
  return out.str();
}

}  // namespace emulated
