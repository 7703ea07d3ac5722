// What all replicas of a layer in a process do once.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace banyan {

class OnceAmongReplicas {
 public:
  /// Replicas that exist at the same time give the same key.
  explicit OnceAmongReplicas(const std::string& key) {
    static std::mutex mutex;
    static std::map<std::string, std::weak_ptr<std::atomic<bool>>> all;
    const std::lock_guard lock(mutex);
    done_ = all[key].lock();
    if (!done_) all[key] = done_ = std::make_shared<std::atomic<bool>>(false);
  }

  /// For the first call of all replicas only.
  bool is_first() { return !done_->exchange(true); }

 private:
  std::shared_ptr<std::atomic<bool>> done_;
};

}  // namespace banyan
