// Vector clocks: which work of which streams is known to be done before something else.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace emulated {

/// A stream, numbered over the process's whole life.
using Actor = std::uint32_t;

class VectorClock {
 public:
  /// The latest piece of work of `actor` that comes before; 0: none.
  std::uint64_t of(Actor actor) const {
    const auto it = find(actor);
    return it != entries_.end() && it->first == actor ? it->second : 0;
  }
  void advance(Actor actor, std::uint64_t number) {
    const auto at = find(actor) - entries_.cbegin();
    if (at < std::ssize(entries_) && entries_[at].first == actor)
      entries_[at].second = std::max(entries_[at].second, number);
    else
      entries_.insert(entries_.begin() + at, {actor, number});
  }
  void forget(Actor actor) {
    const auto at = find(actor);
    if (at != entries_.end() && at->first == actor) entries_.erase(at);
  }
  /// Streams are retired one after the other (Machine::retired): up to which one that is known.
  std::uint64_t retired() const { return retired_; }
  void know_retired(std::uint64_t number) { retired_ = std::max(retired_, number); }
  void join(const VectorClock& other) {
    know_retired(other.retired_);
    if (other.entries_.empty()) return;
    std::vector<Entry> merged;
    merged.reserve(entries_.size() + other.entries_.size());
    auto a = entries_.cbegin(), b = other.entries_.cbegin();
    while (a != entries_.cend() || b != other.entries_.cend()) {
      if (b == other.entries_.cend() || (a != entries_.cend() && a->first < b->first)) {
        merged.push_back(*a++);
      } else if (a == entries_.cend() || b->first < a->first) {
        merged.push_back(*b++);
      } else {
        merged.emplace_back(a->first, std::max(a->second, b->second));
        ++a, ++b;
      }
    }
    entries_.swap(merged);
  }

 private:
  using Entry = std::pair<Actor, std::uint64_t>;
  std::vector<Entry>::const_iterator find(Actor actor) const {
    return std::lower_bound(entries_.begin(), entries_.end(), actor,
                            [](const Entry& e, Actor a) { return e.first < a; });
  }
  std::vector<Entry> entries_;  // by actor
  std::uint64_t retired_ = 0;
};

}  // namespace emulated
