// What the sources of a process share: the first one makes it, with the last one it goes. Internal to the
// room.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace banyan::data {

/// What `make` returns (std::shared_ptr<T>), made again only if nobody has that of `name` any more. Each
/// place that calls this has names of its own.
template <class T, class Make>
std::shared_ptr<T> open_once(const std::string& name, const Make& make) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<T>> open;
  const std::lock_guard lock(mutex);
  std::weak_ptr<T>& entry = open[name];
  std::shared_ptr<T> shared = entry.lock();
  if (!shared) entry = shared = make();
  return shared;
}

}  // namespace banyan::data
