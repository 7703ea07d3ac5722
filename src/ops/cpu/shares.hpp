// How threads share the work of a parallel region.
//
// Items (images, rows of them) are divided as by schedule(static): thread t of T has the t-th part, in every
// layer the same images. What a layer has written is then still in the caches of the thread that reads it
// next, which matters where cores do not share a cache: on processors made of groups of cores with an L3
// cache each, the cores' exchange costs as much as memory. A thread that is done goes on with what others
// have left, so that on a busy machine none waits long for a slow one.
#pragma once

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

namespace banyan::ops {

class Shares {
 public:
  /// Threads take `chunk` items at a time.
  Shares(int threads, std::int64_t items, std::int64_t chunk)
      : chunk_(chunk), parts_(static_cast<std::size_t>(threads)) {
    for (int t = 0; t < threads; ++t) {
      parts_[t].next = items * t / threads;
      parts_[t].end = items * (t + 1) / threads;
    }
  }

  /// Called by every thread of a region of at most that many: body(first, last) until all items are done.
  template <class Body>
  void run(const Body& body) {
    const std::size_t own = static_cast<std::size_t>(omp_get_thread_num());
    for (std::size_t i = 0; i < parts_.size(); ++i) finish(parts_[(own + i) % parts_.size()], body);
  }

 private:
  struct alignas(64) Part {  // a cache line each
    std::atomic<std::int64_t> next{0};
    std::int64_t end = 0;
  };

  template <class Body>
  void finish(Part& part, const Body& body) const {
    while (part.next.load(std::memory_order_relaxed) < part.end) {
      const std::int64_t first = part.next.fetch_add(chunk_, std::memory_order_relaxed);
      if (first < part.end) body(first, std::min(first + chunk_, part.end));
    }
  }

  std::int64_t chunk_;
  std::vector<Part> parts_;
};

}  // namespace banyan::ops
