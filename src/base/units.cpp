#include "banyan/base/units.hpp"

#include <iomanip>
#include <sstream>
#include <utility>

namespace banyan {

std::string mebibytes(std::int64_t bytes) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(2) << static_cast<double>(bytes) / (1 << 20) << " MiB";
  return out.str();
}

std::string scaled(double count) {
  const std::pair<double, const char*> scales[] = {{1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}};
  std::ostringstream out;
  out << std::setprecision(4);
  for (const auto& [scale, suffix] : scales)
    if (count >= scale) {
      out << count / scale << suffix;
      return out.str();
    }
  out << count;
  return out.str();
}

}  // namespace banyan
