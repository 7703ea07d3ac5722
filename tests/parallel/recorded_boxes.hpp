// Link matrices of real machines, as the vendor's topology tool prints them, and the resulting trees.
// docs/topology.md shows the same trees.
#pragma once

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "banyan/parallel/topology.hpp"

namespace banyan::parallel {

struct RecordedBox {
  std::string name;    ///< the heading in the docs
  std::string matrix;  ///< one line per device
  std::string tree;    ///< as Tree::draw
};

inline void PrintTo(const RecordedBox& box, std::ostream* out) { *out << box.name; }

inline LinkMatrix parse_matrix(const std::string& text) {
  std::vector<std::vector<LinkClass>> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    rows.emplace_back();
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      int link = static_cast<int>(LinkClass::memory);
      while (link > 0 && word != name_of(static_cast<LinkClass>(link))) --link;
      rows.back().push_back(word == "X" ? LinkClass::memory : static_cast<LinkClass>(link));
    }
  }
  LinkMatrix links(static_cast<int>(rows.size()), LinkClass::none);
  for (std::size_t a = 0; a < rows.size(); ++a)
    for (std::size_t b = 0; b < a; ++b) {
      EXPECT_EQ(rows[a].at(b), rows[b].at(a)) << "the matrix is not symmetric: " << a << ", " << b;
      links.set(static_cast<int>(a), static_cast<int>(b), rows[a].at(b));
    }
  return links;
}

inline const std::vector<RecordedBox>& recorded_boxes() {
  static const std::vector<RecordedBox> boxes = {
      {"One card", "X\n", "gpu:0\n"},
      {"Three cards on one host bridge",
       "X   PHB PHB\n"
       "PHB X   PHB\n"
       "PHB PHB X\n",
       "gpu:0\n"
       "├── gpu:1\n"
       "└── gpu:2\n"},
      {"Four PCIe cards behind two switches",
       "X   PIX PHB PHB\n"
       "PIX X   PHB PHB\n"
       "PHB PHB X   PIX\n"
       "PHB PHB PIX X\n",
       "gpu:0\n"
       "├── gpu:1\n"
       "└── gpu:2\n"
       "    └── gpu:3\n"},
      {"Two sockets, no peer access across",
       "X    PIX  none none\n"
       "PIX  X    none none\n"
       "none none X    PIX\n"
       "none none PIX  X\n",
       "gpu:0\n"
       "├── gpu:1\n"
       "└── gpu:2\n"
       "    └── gpu:3\n"},
      {"Eight GPUs, hybrid cube mesh of NVLinks",
       "X   NV1 NV1 NV2 NV2 SYS SYS SYS\n"
       "NV1 X   NV2 NV1 SYS NV2 SYS SYS\n"
       "NV1 NV2 X   NV2 SYS SYS NV1 SYS\n"
       "NV2 NV1 NV2 X   SYS SYS SYS NV1\n"
       "NV2 SYS SYS SYS X   NV1 NV1 NV2\n"
       "SYS NV2 SYS SYS NV1 X   NV2 NV1\n"
       "SYS SYS NV1 SYS NV1 NV2 X   NV2\n"
       "SYS SYS SYS NV1 NV2 NV1 NV2 X\n",
       "gpu:0\n"
       "├── gpu:3\n"
       "│   └── gpu:2\n"
       "│       └── gpu:1\n"
       "└── gpu:4\n"
       "    └── gpu:7\n"
       "        └── gpu:6\n"
       "            └── gpu:5\n"},
      {"Eight GPUs on NVSwitch",
       "X    NV4+ NV4+ NV4+ NV4+ NV4+ NV4+ NV4+\n"
       "NV4+ X    NV4+ NV4+ NV4+ NV4+ NV4+ NV4+\n"
       "NV4+ NV4+ X    NV4+ NV4+ NV4+ NV4+ NV4+\n"
       "NV4+ NV4+ NV4+ X    NV4+ NV4+ NV4+ NV4+\n"
       "NV4+ NV4+ NV4+ NV4+ X    NV4+ NV4+ NV4+\n"
       "NV4+ NV4+ NV4+ NV4+ NV4+ X    NV4+ NV4+\n"
       "NV4+ NV4+ NV4+ NV4+ NV4+ NV4+ X    NV4+\n"
       "NV4+ NV4+ NV4+ NV4+ NV4+ NV4+ NV4+ X\n",
       "gpu:0\n"
       "├── gpu:1\n"
       "├── gpu:2\n"
       "│   └── gpu:3\n"
       "└── gpu:4\n"
       "    ├── gpu:5\n"
       "    └── gpu:6\n"
       "        └── gpu:7\n"},
  };
  return boxes;
}

}  // namespace banyan::parallel
