// Lists as R-CNN's data layers read them: words between blanks, wherever lines end. Internal to the room.
#pragma once

#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "banyan/base/box.hpp"
#include "banyan/base/error.hpp"
#include "banyan/base/number.hpp"
#include "banyan/base/text.hpp"
#include "banyan/io/atomic_file.hpp"

namespace banyan::data {

/// The lines of a list that are not blank: body(number from 1, line).
template <class Body>
void for_each_line_of(const std::string& path, const Body& body) {
  constexpr std::size_t kLargest = std::size_t{1} << 30;
  std::istringstream lines(io::read_file(path, kLargest));
  std::string line;
  for (std::uint64_t number = 1; std::getline(lines, line); ++number)
    if (line.find_first_not_of(" \t\r") != std::string::npos) body(number, line);
}

/// Words of a text, with the line that each is in.
class ListWords {
 public:
  ListWords(std::string_view text, std::string origin) : text_(text), origin_(std::move(origin)) {}

  bool done() {
    while (at_ < text_.size() && is_blank(text_[at_]))
      if (text_[at_++] == '\n') ++line_;
    return at_ == text_.size();
  }
  std::string_view next(const char* what) {
    if (done()) fail(what, "the end of the file");
    const std::size_t begin = at_;
    while (at_ < text_.size() && !is_blank(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  template <class Number>
  Number number(const char* what) {
    const std::string_view word = next(what);
    const auto value = number_in<Number>(word);
    if (!value) fail(what, banyan::quoted(word));
    return *value;
  }
  [[noreturn]] void fail(const std::string& expected, const std::string& found) const {
    bad_input(origin_, ":", line_, ": expected ", expected, ", found ", found);
  }

 private:
  static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

  std::string_view text_;
  std::string origin_;
  std::size_t at_ = 0, line_ = 1;
};

/// `# number path`, with which an image begins. Returns the path.
inline std::string read_listed_path(ListWords& words) {
  if (const std::string_view mark = words.next("\"#\""); mark != "#")
    words.fail("\"#\" before the next image", banyan::quoted(mark));
  words.number<std::int64_t>("the image's number");
  return std::string(words.next("the image's path"));
}

/// `channels height width` of an image in colour.
struct ListedSize {
  int height = 0, width = 0;
};
inline ListedSize read_listed_size(ListWords& words) {
  if (const int channels = words.number<int>("the image's channels"); channels != 3)
    words.fail("3 channels: images are read in colour", cat(channels));
  ListedSize size;
  size.height = words.number<int>("the image's height");
  size.width = words.number<int>("the image's width");
  return size;
}

/// `x1 y1 x2 y2` in pixels.
inline Box read_listed_box(ListWords& words) {
  Box box;
  box.x1 = words.number<double>("x1");
  box.y1 = words.number<double>("y1");
  box.x2 = words.number<double>("x2");
  box.y2 = words.number<double>("y2");
  constexpr double kFarthest = 1 << 20;
  const auto is_side = [&](double from, double to) {
    return -kFarthest <= from && from <= to && to <= kFarthest;
  };
  if (!is_side(box.x1, box.x2) || !is_side(box.y1, box.y2))
    words.fail("a box that ends after it begins",
               cat("x ", box.x1, " to ", box.x2, ", y ", box.y1, " to ", box.y2));
  return box;
}

}  // namespace banyan::data
