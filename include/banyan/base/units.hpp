// Numbers as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace banyan {

/// 1300000 as "1.24 MiB".
std::string mebibytes(std::int64_t bytes);
/// 1234567 as "1.235 M".
std::string scaled(double count);

}  // namespace banyan
