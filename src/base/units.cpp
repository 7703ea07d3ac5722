#include "banyan/base/units.hpp"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>
#include <utility>

#include "banyan/base/error.hpp"

namespace banyan {

std::string size_text(std::int64_t bytes) {
  const auto size = static_cast<double>(bytes);
  std::ostringstream out;
  out << std::fixed;
  if (bytes < 1 << 10)
    out << bytes << " B";
  else if (size < 0.1 * (1 << 20))
    out << std::setprecision(1) << size / (1 << 10) << " KiB";
  else
    out << std::setprecision(2) << size / (1 << 20) << " MiB";
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

std::string duration_text(double seconds) {
  const auto s = static_cast<std::int64_t>(std::llround(std::max(seconds, 0.0)));
  if (s < 60) return cat(s, " s");
  if (s < 3600) return cat(s / 60, " min ", s % 60, " s");
  if (s < 86400) return cat(s / 3600, " h ", s % 3600 / 60, " min");
  return cat(s / 86400, " d ", s % 86400 / 3600, " h");
}

}  // namespace banyan
