// One piece of work on a thread of its own, for what it would leave behind on the caller's: the current
// device and the cores that this binds the thread to.
#pragma once

#include <future>
#include <system_error>

#include "banyan/base/error.hpp"

namespace banyan {

/// What `work` returns or throws. A runtime failure if no thread can be started.
template <class Work>
auto on_another_thread(const Work& work) {
  std::future<decltype(work())> result;
  try {
    result = std::async(std::launch::async, work);
  } catch (const std::system_error& error) {
    runtime_failure("cannot start a thread: ", error.code().message());
  }
  return result.get();
}

}  // namespace banyan
