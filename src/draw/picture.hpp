// What a drawing of a net shows, without places: cards of layers, and the blobs between them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "banyan/net/net.hpp"

namespace banyan::draw {

/// What a type of layer does; each has a colour.
enum class Kind : std::uint8_t {
  data,
  linear,  ///< convolutions and inner products
  normalization,
  activation,
  pooling,  ///< and other resampling
  joining,  ///< sums, concatenations and cuts
  shaping,
  recurrent,
  boxes,  ///< detection
  loss,
  measure,  ///< accuracies and other results
  other
};
inline constexpr int kKinds = 12;
/// As in a legend.
const char* name_of(Kind kind);
struct Colour {
  const char *line, *fill, *dark_line, *dark_fill;
};
const Colour& colour_of(Kind kind);
/// Every type of layer that is registered has one; `other` is for what users write: Python, and types of
/// their own.
Kind kind_of(const std::string& type);
/// A layer's settings in a few words, such as "64, 7x7, stride 2, pad 3"; "" if it has none.
std::string settings_of(const Layer& layer);

struct Row {
  std::string name, type, settings;
  Kind kind = Kind::other;
  std::vector<std::string> marks;  ///< "in place", "view", "sync: groups of 4", ...
  std::vector<std::string> notes;  ///< what a tooltip says besides
};

/// Layers that run as one step: the first does the work of the others.
struct Card {
  std::vector<Row> rows;
  std::string steps;  ///< numbers of its steps in the plan
  int band = 0;       ///< segment between cuts
};

struct DrawnBlob {
  std::string name;
  std::string shape;
  std::string place;  ///< in memory
  std::vector<std::string> notes;
  int card = 0;
  bool from_source = false;
};

struct Connection {
  int blob = 0, card = 0;
  int row = 0;  ///< of the card; not the first: a layer in the middle of a step, such as a sum, takes it
};

struct Picture {
  std::string title;
  std::vector<std::string> facts;
  std::vector<Card> cards;  ///< a card after those whose blobs it reads
  std::vector<DrawnBlob> blobs;
  std::vector<Connection> connections;
  std::vector<std::string> cuts;  ///< one between each two bands
  bool fused = false;             ///< some card has several rows
};

struct PictureOptions {
  bool plan = false;  ///< with steps, places in memory and cuts
  /// Types in the file of layers that something else stands in for (Model::stood_in_for).
  std::map<std::string, std::string> types;
};

Picture picture_of(const Net& net, const PictureOptions& options);

}  // namespace banyan::draw
