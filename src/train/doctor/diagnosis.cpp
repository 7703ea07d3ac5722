#include "diagnosis.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iomanip>
#include <sstream>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"

namespace banyan {
namespace {

const char* name_of(FindingKind kind) {
  switch (kind) {
    case FindingKind::ok:
      return "ok";
    case FindingKind::warning:
      return "warning";
    case FindingKind::error:
      return "error";
  }
  return "?";
}

std::size_t count_of(const Diagnosis& diagnosis, FindingKind kind) {
  const auto& all = diagnosis.findings;
  return static_cast<std::size_t>(
      std::count_if(all.begin(), all.end(), [&](const Finding& finding) { return finding.kind == kind; }));
}

std::string rounded(double value) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(value < 9.95 ? 1 : 0) << value;
  return out.str();
}

}  // namespace

int Diagnosis::exit_code() const {
  int code = 0;
  for (const Finding& finding : findings) code = std::max(code, static_cast<int>(finding.kind));
  return code;
}

std::string finding_text(const Finding& finding) {
  constexpr std::size_t kTopic = 9, kText = 30;
  std::string line = name_of(finding.kind);
  line.resize(kTopic, ' ');
  line += finding.topic;
  line.resize(std::max(line.size() + 2, kText), ' ');
  line += finding.text + "\n";
  if (!finding.remedy.empty()) line += std::string(kText, ' ') + "-> " + finding.remedy + "\n";
  return line;
}

std::string diagnosis_sum(const Diagnosis& diagnosis) {
  return cat(doctor::count_text(count_of(diagnosis, FindingKind::error), "error"), ", ",
             doctor::count_text(count_of(diagnosis, FindingKind::warning), "warning"), ", ",
             count_of(diagnosis, FindingKind::ok), " ok\n");
}

std::string diagnosis_text(const Diagnosis& diagnosis) {
  std::string text;
  for (const Finding& finding : diagnosis.findings) text += finding_text(finding);
  return text + diagnosis_sum(diagnosis);
}

std::string diagnosis_json(const Diagnosis& diagnosis) {
  std::vector<std::string> findings;
  for (const Finding& finding : diagnosis.findings) {
    std::vector<std::string> figures;
    for (const auto& [name, value] : finding.figures) figures.push_back(json_string(name) + ": " + value);
    findings.push_back(
        cat("{\"kind\": ", json_string(name_of(finding.kind)), ", \"topic\": ", json_string(finding.topic),
            ", \"text\": ", json_string(finding.text), ", \"remedy\": ", json_string(finding.remedy),
            ", \"figures\": {", join(figures, ", "), "}}"));
  }
  return cat("{\"errors\": ", count_of(diagnosis, FindingKind::error),
             ", \"warnings\": ", count_of(diagnosis, FindingKind::warning),
             ", \"ok\": ", count_of(diagnosis, FindingKind::ok), ",\n \"findings\": [\n  ",
             join(findings, ",\n  "), "]}\n");
}

namespace doctor {

void Findings::ok(const std::string& topic, const std::string& text, Figures figures) {
  add({FindingKind::ok, topic, text, "", std::move(figures)});
}

void Findings::warn(const std::string& topic, const std::string& text, const std::string& remedy,
                    Figures figures) {
  add({FindingKind::warning, topic, text, remedy, std::move(figures)});
}

void Findings::fail(const std::string& topic, const std::string& text, const std::string& remedy,
                    Figures figures) {
  add({FindingKind::error, topic, text, remedy, std::move(figures)});
}

bool Findings::attempt(const std::string& topic, const std::string& remedy,
                       const std::function<void()>& action) {
  try {
    action();
    return true;
  } catch (const Error& error) {
    // Its contexts are lines of their own.
    std::string text = error.what();
    for (std::size_t at = 0; (at = text.find("\n  ", at)) != std::string::npos;) text.replace(at, 3, "; ");
    fail(topic, text, remedy);
  } catch (const std::bad_alloc&) {
    fail(topic, "out of memory", remedy);
  } catch (const std::exception& error) {
    fail(topic, error.what(), remedy);
  }
  return false;
}

void Findings::add(Finding finding) {
  if (found_) found_(finding);
  all_.push_back(std::move(finding));
}

std::string json_number(double value) {
  std::ostringstream out;
  out << std::setprecision(9) << value;
  return std::isfinite(value) ? out.str() : "null";
}

std::string bytes_text(double bytes) {
  constexpr std::array kUnits = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && unit + 1 < kUnits.size(); ++unit) bytes /= 1024;
  return cat(unit == 0 ? cat(static_cast<std::int64_t>(bytes)) : rounded(bytes), " ", kUnits[unit]);
}

std::string seconds_text(double seconds) {
  if (seconds < 0.0995) return rounded(seconds * 1e3) + " ms";
  if (seconds < 120) return rounded(seconds) + " s";
  if (seconds < 7200) return rounded(seconds / 60) + " min";
  if (seconds < 48 * 3600) return rounded(seconds / 3600) + " h";
  return rounded(seconds / 86400) + " days";
}

std::string count_text(std::uint64_t count, const std::string& what) {
  return cat(count, " ", what, count == 1 ? "" : "s");
}

}  // namespace doctor
}  // namespace banyan
