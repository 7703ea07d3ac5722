// Numbers that belong to iterations, as columns: what a page of curves needs, and much less than the lines
// that they came from.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/schema.hpp"

namespace banyan::report {

/// A number of the file; infinities and NaN are written as texts there.
std::optional<double> number_in(const Json& object, const char* name);
/// The same way back; null where there is none.
Json to_json(std::optional<double> number);

class Columns {
 public:
  /// Keeps at most about `most` rows (0: all): every second, fourth ... of those added.
  explicit Columns(std::size_t most = 0) : most_(most) {}

  void add_row(std::int64_t iteration);
  /// In the row last added.
  void set(const std::string& column, std::optional<double> value);
  /// Removes the rows from this iteration on.
  void cut(std::int64_t iteration);

  std::size_t rows() const { return iterations_.size(); }
  std::size_t added() const { return added_; }
  const std::vector<std::int64_t>& iterations() const { return iterations_; }
  /// Rows that keep the curve of `column` as it looks: all, or of each group the first, the least and the
  /// largest.
  std::vector<std::size_t> thinned(const std::string& column, std::size_t most) const;
  /// {"iteration": [...], column: [...], ...}, in the order in which the columns came.
  Json json(const std::vector<std::size_t>& rows) const;
  Json json() const;

 private:
  struct Column {
    std::string name;
    std::vector<std::optional<double>> values;  ///< may be shorter than the rows
  };
  Column& column(const std::string& name);

  std::size_t most_, added_ = 0, stride_ = 1;
  bool kept_ = true;  ///< the row last added
  std::vector<std::int64_t> iterations_;
  std::vector<Column> columns_;
};

}  // namespace banyan::report
