// What `trainer doctor` collects, and how it shows it.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "banyan/train/doctor.hpp"

namespace banyan::doctor {

/// For programs: names and JSON values.
using Figures = std::vector<std::pair<std::string, std::string>>;

class Findings {
 public:
  /// `found` is told of each.
  explicit Findings(std::function<void(const Finding&)> found = {}) : found_(std::move(found)) {}
  void ok(const std::string& topic, const std::string& text, Figures figures = {});
  void warn(const std::string& topic, const std::string& text, const std::string& remedy,
            Figures figures = {});
  void fail(const std::string& topic, const std::string& text, const std::string& remedy,
            Figures figures = {});
  /// Runs it; an Error is a finding with this remedy. False if there was one.
  bool attempt(const std::string& topic, const std::string& remedy, const std::function<void()>& action);

  const std::vector<Finding>& all() const { return all_; }

 private:
  void add(Finding finding);
  std::function<void(const Finding&)> found_;
  std::vector<Finding> all_;
};

/// "null" for what is not finite.
std::string json_number(double value);
/// 1536 as "1.5 KiB".
std::string bytes_text(double bytes);
/// "3.2 s", "12 min", "5.3 h", "2.1 days".
std::string seconds_text(double seconds);
/// "2 devices", "1 device"
std::string count_text(std::uint64_t count, const std::string& what);

}  // namespace banyan::doctor
