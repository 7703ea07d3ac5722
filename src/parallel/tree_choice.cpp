#include "banyan/parallel/tree_choice.hpp"

#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

#include "banyan/base/error.hpp"
#include "banyan/base/number.hpp"
#include "banyan/base/text.hpp"

namespace banyan::parallel {
namespace {

struct Line {
  int number;
  std::vector<int> values;
};

/// Reads the lines of a tree file into parents; one object per file.
class TreeReader {
 public:
  TreeReader(const std::string& file, int devices) : file_(file), devices_(devices), parent_(devices) {}

  Tree read(const std::string& text) {
    const std::vector<Line> lines = lines_of(text);
    const bool list = lines.size() == 1 &&
                      (lines[0].values.size() != 2 || lines[0].values[0] == -1 || lines[0].values[1] == -1);
    if (list)
      take_list(lines[0]);
    else
      for (const Line& line : lines) take_edge(line);
    return finish();
  }

 private:
  template <class... Parts>
  [[noreturn]] void refuse(int line, const Parts&... parts) const {
    bad_input(file_, ":", line, ": ", parts...);
  }

  std::vector<Line> lines_of(const std::string& text) const {
    std::vector<Line> lines;
    std::istringstream in(text);
    int number = 0;
    for (std::string line; std::getline(in, line);) {
      ++number;
      std::istringstream words(line.substr(0, line.find('#')));
      Line found{number, {}};
      for (std::string word; words >> word;) {
        const auto value = number_in<int>(word);
        if (!value) refuse(number, "expected a device number, found ", quoted(word));
        found.values.push_back(*value);
      }
      if (!found.values.empty()) lines.push_back(found);
    }
    return lines;
  }

  void check_device(int line, int device) const {
    if (device < 0 || device >= devices_)
      refuse(line, "there is no device ", device, "; the ", devices_, " devices are 0 to ", devices_ - 1);
  }

  void set(int line, int child, int parent) {
    check_device(line, child);
    check_device(line, parent);
    if (child == parent) refuse(line, "device ", child, " cannot be its own parent");
    auto& place = parent_[child];
    if (place) refuse(line, "device ", child, " has the parent ", *place, " already");
    place = parent;
  }

  void take_edge(const Line& line) {
    if (line.values.size() != 2)
      refuse(line.number, "expected two numbers, CHILD PARENT, found ", line.values.size());
    set(line.number, line.values[0], line.values[1]);
  }

  void take_list(const Line& line) {
    if (static_cast<int>(line.values.size()) != devices_)
      refuse(line.number, "expected the parents of ", devices_, " devices, found ", line.values.size(),
             " numbers");
    for (int child = 0; child < devices_; ++child)
      if (line.values[child] != -1) set(line.number, child, line.values[child]);
  }

  Tree finish() const {
    std::vector<int> parents;
    std::vector<std::string> roots;
    for (int device = 0; device < devices_; ++device) {
      const auto& parent = parent_[device];
      if (!parent) roots.push_back(std::to_string(device));
      parents.push_back(parent.value_or(-1));
    }
    if (roots.size() != 1)
      bad_input(
          file_, ": exactly one device, the root, has no parent; here ",
          roots.empty() ? std::string("every device has one") : "these have none: " + join(roots, ", "));
    for (int device = 0; device < devices_; ++device) {
      int at = device;
      for (int steps = 0; at != -1; ++steps, at = parents[at])
        if (steps > devices_) bad_input(file_, ": the parents of device ", device, " form a cycle");
    }
    return Tree(std::move(parents));
  }

  std::string file_;
  int devices_;
  std::vector<std::optional<int>> parent_;
};

}  // namespace

Tree parse_tree(const std::string& text, const std::string& file, int devices) {
  return TreeReader(file, devices).read(text);
}

Tree choose_tree(const std::string& choice, const LinkMatrix& links) {
  if (choice == "auto" || choice.empty()) return best_tree(links);
  if (choice == "pairs") return build_tree(links);
  if (choice == "direct") return direct_tree(links.devices());
  if (choice == "chain") return chain_tree(links.devices());
  if (choice == "star") return star_tree(links.devices());
  std::ifstream file(choice);
  if (!file)
    bad_input("--tree=", choice, ": expected auto, direct, pairs, chain, star or a file with a tree",
              did_you_mean(choice, {"auto", "direct", "pairs", "chain", "star"}));
  std::ostringstream text;
  text << file.rdbuf();
  return parse_tree(text.str(), choice, links.devices());
}

}  // namespace banyan::parallel
