#include "access_history.hpp"

#include <set>
#include <sstream>
#include <utility>

#include "machine.hpp"

namespace emulated {

namespace {

bool before(const Operation& earlier, const VectorClock& now) {
  if (now.of(earlier.actor) >= earlier.number) return true;
  const Quiet quiet;
  const std::lock_guard<std::mutex> lock(Machine::get().mutex);
  const auto& retired = Machine::get().retired;
  const auto it = retired.find(earlier.actor);
  return it != retired.end() && it->second <= now.retired();
}

void report(std::uintptr_t at, const Operation& earlier, bool earlier_writes, const Operation& later,
            bool later_writes) {
  static auto* const mutex = new std::mutex;
  static auto* const told = new std::set<std::pair<std::string, std::string>>;
  {
    const Quiet quiet;
    const std::lock_guard<std::mutex> lock(*mutex);
    if (!told->insert({earlier.name, later.name}).second) return;
  }
  const auto which = [](const Operation& o, bool writes) {
    std::ostringstream out;
    out << (writes ? "writes" : "reads") << ": " << o.name << ", number " << o.number << " of stream "
        << o.actor << " of gpu:" << o.gpu;
    return out.str();
  };
  complain("no order between two pieces of work that use ",
           Memory::get().describe(reinterpret_cast<const void*>(at)), "\n  ", which(earlier, earlier_writes),
           "\n  ", which(later, later_writes),
           earlier.stack.empty() ? "" : "\n  the first was enqueued by:\n", describe_stack(earlier.stack));
}

}  // namespace

void AccessHistory::cut(std::uintptr_t at) {
  auto it = ranges_.lower_bound(at);
  if ((it != ranges_.end() && it->first == at) || it == ranges_.begin()) return;
  --it;
  if (it->second.end <= at) return;
  Range upper = it->second;
  it->second.end = at;
  ranges_.emplace(at, std::move(upper));
}

void AccessHistory::use(std::uintptr_t begin, std::uintptr_t end, bool write,
                        const std::shared_ptr<const Operation>& operation, const VectorClock& now) {
  struct Conflict {
    std::uintptr_t at;
    std::shared_ptr<const Operation> earlier;
    bool earlier_writes;
  };
  std::vector<Conflict> conflicts;
  {
    const Quiet quiet;
    const std::lock_guard<std::mutex> lock(mutex_);
    cut(begin);
    cut(end);
    auto it = ranges_.lower_bound(begin);
    std::uintptr_t at = begin;
    while (it != ranges_.end() && it->first < end) {
      if (!write && at < it->first) ranges_.emplace_hint(it, at, Range{it->first, nullptr, {operation}});
      Range& range = it->second;
      at = range.end;
      if (range.writer != nullptr && range.writer != operation && !before(*range.writer, now))
        conflicts.push_back({it->first, range.writer, true});
      if (write) {
        for (const auto& reader : range.readers)
          if (reader != operation && !before(*reader, now)) conflicts.push_back({it->first, reader, false});
        it = ranges_.erase(it);
        continue;
      }
      bool known = false;
      for (auto& reader : range.readers)
        if (reader->actor == operation->actor) reader = operation, known = true;
      if (!known) range.readers.push_back(operation);
      ++it;
    }
    if (write)
      ranges_.emplace(begin, Range{end, operation, {}});
    else if (at < end)
      ranges_.emplace(at, Range{end, nullptr, {operation}});
  }
  for (const Conflict& conflict : conflicts)
    report(conflict.at, *conflict.earlier, conflict.earlier_writes, *operation, write);
}

void AccessHistory::forget(std::uintptr_t begin, std::uintptr_t end, const VectorClock& now) {
  std::shared_ptr<const Operation> used;
  {
    const Quiet quiet;
    const std::lock_guard<std::mutex> lock(mutex_);
    cut(begin);
    cut(end);
    const auto first = ranges_.lower_bound(begin), last = ranges_.lower_bound(end);
    for (auto it = first; it != last; ++it) {
      if (it->second.writer != nullptr && !before(*it->second.writer, now)) used = it->second.writer;
      for (const auto& reader : it->second.readers)
        if (!before(*reader, now)) used = reader;
    }
    ranges_.erase(first, last);
  }
  // A GPU that has failed for good does nothing more.
  if (used != nullptr && !is_broken(used->gpu))
    complain("freed, although the host has not waited for work that uses it: ",
             Memory::get().describe(reinterpret_cast<const void*>(begin)), "\n  ", used->name, ", number ",
             used->number, " of stream ", used->actor, " of gpu:", used->gpu,
             used->stack.empty() ? "" : "\n  enqueued by:\n", describe_stack(used->stack));
}

}  // namespace emulated
