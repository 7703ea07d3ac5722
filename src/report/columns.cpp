#include "report/columns.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace banyan::report {

std::optional<double> number_in(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) return std::nullopt;
  if (found->is_number()) return found->get<double>();
  const double infinity = std::numeric_limits<double>::infinity();
  if (*found == "inf") return infinity;
  if (*found == "-inf") return -infinity;
  return std::numeric_limits<double>::quiet_NaN();
}

Json to_json(std::optional<double> number) {
  if (!number) return nullptr;
  if (std::isnan(*number)) return "nan";
  if (std::isinf(*number)) return *number > 0 ? "inf" : "-inf";
  return *number;
}

Columns::Column& Columns::column(const std::string& name) {
  for (Column& column : columns_)
    if (column.name == name) return column;
  return columns_.emplace_back(Column{name, {}});
}

void Columns::add_row(std::int64_t iteration) {
  kept_ = added_++ % stride_ == 0;
  if (!kept_) return;
  iterations_.push_back(iteration);
  if (most_ == 0 || iterations_.size() <= 2 * most_) return;
  // Every second row goes; the one just added stays if its number is a multiple of the new stride.
  stride_ *= 2;
  const auto halve = [](auto& values) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < values.size(); i += 2) values[kept++] = values[i];
    values.resize(kept);
  };
  kept_ = iterations_.size() % 2 == 1;
  halve(iterations_);
  for (Column& column : columns_) halve(column.values);
}

void Columns::set(const std::string& name, std::optional<double> value) {
  if (!kept_ || !value) return;
  Column& target = column(name);
  target.values.resize(iterations_.size());
  target.values.back() = value;
}

void Columns::cut(std::int64_t iteration) {
  while (!iterations_.empty() && iterations_.back() >= iteration) {
    iterations_.pop_back();
    added_ = iterations_.size() * stride_;
  }
  for (Column& column : columns_)
    if (column.values.size() > iterations_.size()) column.values.resize(iterations_.size());
}

std::vector<std::size_t> Columns::thinned(const std::string& name, std::size_t most) const {
  std::vector<std::size_t> all(rows());
  std::iota(all.begin(), all.end(), std::size_t{0});
  if (rows() <= most) return all;
  const auto found = std::find_if(columns_.begin(), columns_.end(),
                                  [&](const Column& column) { return column.name == name; });
  const auto value = [&](std::size_t row) {
    const bool there = found != columns_.end() && row < found->values.size() && found->values[row];
    return there ? *found->values[row] : std::numeric_limits<double>::quiet_NaN();
  };
  const std::size_t group = (3 * rows() + most - 1) / most;
  std::vector<std::size_t> rows_kept;
  for (std::size_t begin = 0; begin < rows(); begin += group) {
    std::size_t least = begin, largest = begin;
    for (std::size_t row = begin; row < std::min(begin + group, rows()); ++row) {
      if (std::isnan(value(row)) || value(row) < value(least)) least = row;
      if (value(row) > value(largest)) largest = row;
    }
    for (const std::size_t row : {begin, std::min(least, largest), std::max(least, largest)})
      if (rows_kept.empty() || rows_kept.back() < row) rows_kept.push_back(row);
  }
  if (rows_kept.back() + 1 < rows()) rows_kept.push_back(rows() - 1);
  return rows_kept;
}

Json Columns::json(const std::vector<std::size_t>& rows) const {
  Json json = Json::object();
  Json& iterations = json["iteration"] = Json::array();
  for (const std::size_t row : rows) iterations.push_back(iterations_[row]);
  for (const Column& column : columns_) {
    Json& values = json[column.name] = Json::array();
    for (const std::size_t row : rows)
      values.push_back(row < column.values.size() ? to_json(column.values[row]) : Json(nullptr));
  }
  return json;
}

Json Columns::json() const {
  std::vector<std::size_t> all(rows());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return json(all);
}

}  // namespace banyan::report
