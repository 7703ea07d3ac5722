// Times of the steady clock in seconds.
#pragma once

#include <chrono>

namespace banyan {

inline double seconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}
inline double seconds_since(std::chrono::steady_clock::time_point then) {
  return seconds(std::chrono::steady_clock::now() - then);
}

}  // namespace banyan
