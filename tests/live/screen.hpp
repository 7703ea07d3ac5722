// A terminal for tests: what it shows and what has scrolled out of it. It knows what a panel and log lines
// need, and remembers what it does not know.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "live/canvas.hpp"

namespace banyan::live {

class Screen {
 public:
  Screen(int rows, int columns) { set_size(rows, columns); }

  void feed(const std::string& bytes) {
    pending_ += bytes;
    std::size_t at = 0;
    while (at < pending_.size()) {
      const std::size_t used = take(at);
      if (used == 0) break;  // the rest of it is still to come
      at += used;
    }
    pending_.erase(0, at);
  }

  /// As xterm: lines are neither joined nor broken; those above the cursor scroll out if they have no place.
  void resize(int rows, int columns) {
    while (row_ >= rows) {
      history_.push_back(text(0));
      cells_.erase(cells_.begin());
      --row_;
    }
    set_size(rows, columns);
  }

  int rows() const { return rows_; }
  int columns() const { return columns_; }
  /// Of a row, without blanks at its end.
  std::string text(int row) const {
    std::string line;
    for (const std::string& cell : cells_[static_cast<std::size_t>(row)]) line += cell;
    return line.substr(0, line.find_last_not_of(' ') + 1);
  }
  std::vector<std::string> lines() const {
    std::vector<std::string> all;
    for (int row = 0; row < rows_; ++row) all.push_back(text(row));
    return all;
  }
  std::string all() const {
    std::string text;
    for (const std::string& line : lines()) text += line + "\n";
    return text;
  }
  /// What has scrolled out, and what is above the region's end.
  std::string printed() const {
    std::string text;
    for (const std::string& line : history_) text += line + "\n";
    for (int row = 0; row <= bottom_; ++row) text += this->text(row) + "\n";
    return text;
  }
  bool has(const std::string& words) const { return all().find(words) != std::string::npos; }

  int row() const { return row_; }
  int column() const { return column_; }
  /// The rows that scroll: [first, last].
  int first() const { return top_; }
  int last() const { return bottom_; }
  bool wraps() const { return wraps_; }
  bool shows_cursor() const { return shows_cursor_; }
  bool plain() const { return style_.empty(); }
  /// As a program that knows nothing of panels expects it.
  bool restored() const { return top_ == 0 && bottom_ == rows_ - 1 && wraps_ && shows_cursor_ && plain(); }
  const std::vector<std::string>& unknown() const { return unknown_; }

 private:
  using Row = std::vector<std::string>;  ///< a character for each column; "" after one that takes two

  void set_size(int rows, int columns) {
    rows_ = rows;
    columns_ = columns;
    cells_.resize(static_cast<std::size_t>(rows));
    for (Row& row : cells_) row.resize(static_cast<std::size_t>(columns), " ");
    top_ = 0;
    bottom_ = rows - 1;
    row_ = std::min(row_, rows - 1);
    column_ = std::min(column_, columns - 1);
  }

  std::size_t take(std::size_t at) {
    const char c = pending_[at];
    if (c == '\x1b') return take_escape(at);
    if (c == '\r') {
      column_ = 0;
      wrap_ = false;
    } else if (c == '\n') {
      wrap_ = false;
      line_feed();
    } else if (static_cast<unsigned char>(c) >= 0x20) {
      return take_character(at);
    } else {
      unknown_.push_back("control " + std::to_string(c));
    }
    return 1;
  }

  std::size_t take_character(std::size_t at) {
    const auto first = static_cast<unsigned char>(pending_[at]);
    const std::size_t length = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (at + length > pending_.size()) return 0;
    const std::string bytes = pending_.substr(at, length);
    char32_t code = length == 1 ? first : first & (0x7f >> length);
    for (std::size_t i = 1; i < length; ++i) code = code << 6 | (static_cast<unsigned char>(bytes[i]) & 0x3f);
    const int columns = columns_of(code);
    if (wrap_ && wraps_) {
      column_ = 0;
      line_feed();
    }
    wrap_ = false;
    Row& row = cells_[static_cast<std::size_t>(row_)];
    row[static_cast<std::size_t>(column_)] = bytes;
    if (columns == 2 && column_ + 1 < columns_) row[static_cast<std::size_t>(column_) + 1] = "";
    column_ += columns;
    if (column_ >= columns_) {
      column_ = columns_ - 1;
      wrap_ = true;
    }
    return length;
  }

  void line_feed() {
    if (row_ != bottom_) {
      row_ = std::min(row_ + 1, rows_ - 1);
      return;
    }
    if (top_ == 0) history_.push_back(text(0));
    cells_.erase(cells_.begin() + top_);
    cells_.insert(cells_.begin() + bottom_, Row(static_cast<std::size_t>(columns_), " "));
  }

  std::size_t take_escape(std::size_t at) {
    if (at + 1 >= pending_.size()) return 0;
    const char kind = pending_[at + 1];
    if (kind == '7') {
      saved_row_ = row_, saved_column_ = column_, saved_style_ = style_;
      return 2;
    }
    if (kind == '8') {
      row_ = std::min(saved_row_, rows_ - 1), column_ = std::min(saved_column_, columns_ - 1);
      style_ = saved_style_;
      wrap_ = false;
      return 2;
    }
    if (kind != '[') {
      unknown_.push_back(pending_.substr(at, 2));
      return 2;
    }
    std::size_t end = at + 2;
    while (end < pending_.size() && (pending_[end] < 0x40 || pending_[end] > 0x7e)) ++end;
    if (end == pending_.size()) return 0;
    control(pending_.substr(at + 2, end - at - 2), pending_[end]);
    return end + 1 - at;
  }

  void control(const std::string& parameters, char kind) {
    std::vector<int> numbers;
    for (std::size_t at = 0; at <= parameters.size();) {
      const std::size_t end = std::min(parameters.find(';', at), parameters.size());
      const std::string part = parameters.substr(at, end - at);
      numbers.push_back(part.empty() || part[0] == '?' ? 0 : std::stoi(part));
      at = end + 1;
    }
    const auto number = [&](std::size_t i, int otherwise) {
      return i < numbers.size() && numbers[i] > 0 ? numbers[i] : otherwise;
    };
    const auto blank = [&](int row, int from) {
      Row& cells = cells_[static_cast<std::size_t>(row)];
      std::fill(cells.begin() + from, cells.end(), " ");
    };
    wrap_ = kind == 'm' && wrap_;
    if (kind == 'm') {
      style_ = parameters == "" || parameters == "0" ? "" : parameters;
    } else if (kind == 'A') {
      row_ = std::max(row_ >= top_ ? top_ : 0, row_ - number(0, 1));
    } else if (kind == 'H') {
      row_ = std::min(number(0, 1), rows_) - 1;
      column_ = std::min(number(1, 1), columns_) - 1;
    } else if (kind == 'J' && number(0, 0) == 0) {
      blank(row_, column_);
      for (int row = row_ + 1; row < rows_; ++row) blank(row, 0);
    } else if (kind == 'K') {
      blank(row_, number(0, 0) == 2 ? 0 : column_);
    } else if (kind == 'r') {
      top_ = number(0, 1) - 1;
      bottom_ = std::min(number(1, rows_), rows_) - 1;
      if (top_ >= bottom_) {
        unknown_.push_back("a region of less than two rows");
        top_ = 0, bottom_ = rows_ - 1;
      }
      row_ = column_ = 0;
    } else if (parameters == "?25") {
      shows_cursor_ = kind == 'h';
    } else if (parameters == "?7") {
      wraps_ = kind == 'h';
    } else if (parameters != "?2004") {  // a shell's wish to know what is pasted
      unknown_.push_back("ESC[" + parameters + kind);
    }
  }

  int rows_ = 0, columns_ = 0, row_ = 0, column_ = 0, top_ = 0, bottom_ = 0;
  int saved_row_ = 0, saved_column_ = 0;
  bool wrap_ = false;  ///< the next character goes to the next line
  bool wraps_ = true, shows_cursor_ = true;
  std::string style_, saved_style_;
  std::vector<Row> cells_;
  std::vector<std::string> history_, unknown_;
  std::string pending_;
};

}  // namespace banyan::live
