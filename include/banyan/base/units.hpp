// Numbers as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace banyan {

/// 1300000 as "1.24 MiB"; less than 0.1 MiB as "12.5 KiB" or "576 B".
std::string size_text(std::int64_t bytes);
/// 1234567 as "1.235 M".
std::string scaled(double count);
/// `45 s`, `2 min 10 s`, `3 h 5 min`, `2 d 4 h`
std::string duration_text(double seconds);

}  // namespace banyan
