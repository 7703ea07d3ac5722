#include "draw/scene.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "draw/division.hpp"
#include "draw/text.hpp"

namespace banyan::draw {
namespace {

constexpr double kPadding = 12;  ///< left and right of the text in a card
constexpr double kLine = 12.5;   ///< of labels
constexpr double kColumnGap = 70;
constexpr std::size_t kMostLabels = 4;  ///< of one card's blobs, each at its wire
constexpr double kJoint = 9;            ///< diameter of the end of a trunk

struct Size {
  double width = 0, height = 0;
};

Size size_of_card(const Card& card) {
  double width = 120;
  for (std::size_t r = 0; r < card.rows.size(); ++r) {
    const Row& row = card.rows[r];
    double marks = 0;
    for (const std::string& mark : row.marks) marks += mark_width(mark) + 4;
    const std::string name = shortened(row.name, kLongestName);
    const std::string what =
        row.type + (row.settings.empty() ? "" : "  " + shortened(row.settings, kLongestSettings));
    if (r == 0)
      width = std::max({width, text_width(name, kNameSize, true) + marks, text_width(what, kSmallSize)});
    else
      width = std::max(
          width, text_width("+ " + name + "   ", kSmallSize, true) + text_width(what, kSmallSize) + marks);
  }
  width = std::max(width, text_width(card.steps, kSmallSize));
  const double height = row_top(static_cast<int>(card.rows.size())) + (card.steps.empty() ? 0 : kStepsRow);
  return {std::ceil(width + 2 * kPadding), height};
}

/// The name is there unless it is that of a layer of the card.
std::vector<std::string> label_lines(const DrawnBlob& blob, const Card& card) {
  std::vector<std::string> lines;
  const bool named =
      std::none_of(card.rows.begin(), card.rows.end(), [&](const Row& row) { return row.name == blob.name; });
  lines.push_back(named ? shortened(blob.name, kLongestName) + "  " + blob.shape : blob.shape);
  if (!blob.place.empty()) lines.push_back(blob.place);
  return lines;
}

class Arranger {
 public:
  Arranger(const Picture& picture, const LayoutEngine& engine, bool may_fold)
      : picture_(picture), engine_(engine) {
    for (const Card& card : picture.cards) sizes_.push_back(size_of_card(card));
    division_.tagged = find_tags(picture);
    division_.first = {0, static_cast<int>(picture.cards.size())};
    measure_labels();
    division_ = divide(picture, division_.tagged, draw_whole(), may_fold);
  }

  Scene take() {
    const std::vector<int>& first = division_.first;
    std::vector<Plot> plots;
    for (std::size_t c = 0; c + 1 < first.size(); ++c) {
      columns_.emplace_back();
      plots.push_back(plot_for(first[c], first[c + 1], columns_.back()));
    }
    const std::vector<Drawing> drawings = engine_(plots);
    double x = 0;
    for (std::size_t c = 0; c < drawings.size(); ++c) {
      columns_[c].x = x;
      columns_[c].width = drawings[c].width;
      scene_.height = std::max(scene_.height, drawings[c].height);
      x += drawings[c].width + kColumnGap;
    }
    scene_.width = std::max(0.0, x - kColumnGap);
    if (division_.folded) fold(drawings);
    for (std::size_t c = 0; c < drawings.size(); ++c) place(columns_[c], plots[c], drawings[c]);
    if (division_.folded) add_bridges();
    add_trunks();
    return std::move(scene_);
  }

 private:
  struct Column {
    double x = 0, y = 0, width = 0;
    bool upwards = false;              ///< upside down, with y its lower end
    std::vector<int> cards;            ///< boxes 0 ...
    std::vector<int> tags;             ///< connections, the boxes after the cards
    std::vector<int> bridges;          ///< connections from the other half of a folded net
    int from_blob = -1, to_blob = -1;  ///< of the trunks from the last and to the next column
    int from_box = -1, to_box = -1;    ///< their joints
    std::vector<int> arc_connection;   ///< per arc, -1: to the joint
    std::vector<int> arc_blob;
    std::vector<std::pair<int, std::string>> cuts;  ///< band that ends (-1: none, above all), text
    Point from_joint, to_joint;
    Point at(const Point& p) const { return {p.x + x, upwards ? y - p.y : p.y + y}; }
  };

  /// The second column upside down, at the height where its bridges are nearly level.
  void fold(const std::vector<Drawing>& drawings) {
    Column &down = columns_[0], &up = columns_[1];
    up.upwards = true;
    std::vector<double> climbs;
    for (const int number : up.bridges) {
      const Connection& connection = picture_.connections[number];
      const int from = picture_.blobs[connection.blob].card, to = connection.card - up.cards.front();
      climbs.push_back(down.at(drawings[0].middles[from]).y - up.at(drawings[1].middles[to]).y);
    }
    std::sort(climbs.begin(), climbs.end());
    up.y = climbs[climbs.size() / 2];
    const double top = std::min(0.0, up.y - drawings[1].height);
    down.y -= top;
    up.y -= top;
    scene_.height = std::max(down.y + drawings[0].height, up.y);
  }

  double port_x(const DrawnBlob& blob) const { return ports_[&blob - picture_.blobs.data()]; }

  /// Where blobs leave their cards, and how much room their texts need.
  void measure_labels() {
    below_.assign(picture_.cards.size(), 0);
    room_.assign(picture_.cards.size(), 0);
    ports_.assign(picture_.blobs.size(), 0);
    std::vector<std::vector<int>> of_card(picture_.cards.size());
    for (std::size_t b = 0; b < picture_.blobs.size(); ++b)
      of_card[picture_.blobs[b].card].push_back(static_cast<int>(b));
    for (std::size_t c = 0; c < of_card.size(); ++c) {
      const std::vector<int>& blobs = of_card[c];
      if (blobs.empty()) continue;
      double slot = 14;
      std::size_t lines = 1;
      for (const int blob : blobs) {
        const auto texts = label_lines(picture_.blobs[blob], picture_.cards[c]);
        lines = std::max(lines, texts.size());
        for (const std::string& text : texts)
          if (blobs.size() <= kMostLabels) slot = std::max(slot, text_width(text, kSmallSize) + 16);
      }
      below_[c] = kLine * static_cast<double>(lines) + 5;
      place_ports(blobs, slot, static_cast<int>(c));
    }
  }

  /// A blob is in the middle if it is the only one, or the only one with a wire; the others are then to its
  /// right.
  void place_ports(const std::vector<int>& blobs, double slot, int card) {
    const auto wired = [&](int blob) {
      for (std::size_t i = 0; i < division_.tagged.size(); ++i)
        if (picture_.connections[i].blob == blob && !division_.tagged[i]) return true;
      return false;
    };
    const double count = static_cast<double>(blobs.size());
    double& width = sizes_[card].width;
    if (blobs.size() <= kMostLabels &&
        (blobs.size() == 1 || std::count_if(blobs.begin(), blobs.end(), wired) == 1)) {
      double x = slot;
      for (const int blob : blobs)
        if (blobs.size() > 1 && !wired(blob)) {
          ports_[blob] = x;
          x += slot;
        }
      width = std::max(width, 2 * (slot * (count - 1) + 12));
      room_[card] = 2 * slot * count;
      return;
    }
    width = std::max(width, slot * count);
    room_[card] = width;
    if (blobs.size() > kMostLabels)
      room_[card] = std::max(width, 2 * text_width(summary_of(blobs), kSmallSize) + 16);
    for (std::size_t i = 0; i < blobs.size(); ++i)
      ports_[blobs[i]] = slot * (static_cast<double>(i) - count / 2) + std::min(slot / 2, 12.0);
  }

  /// Of blobs that are too many for a label each.
  std::string summary_of(const std::vector<int>& blobs) const {
    std::vector<std::string> shapes;
    for (const int blob : blobs)
      if (std::find(shapes.begin(), shapes.end(), picture_.blobs[blob].shape) == shapes.end())
        shapes.push_back(picture_.blobs[blob].shape);
    std::string text = std::to_string(blobs.size()) + " blobs: ";
    for (std::size_t i = 0; i < shapes.size() && i < 3; ++i) text += (i > 0 ? ", " : "") + shapes[i];
    return shapes.size() > 3 ? text + " \u2026" : text;
  }

  Box box_of(int card) const {
    const bool side = std::any_of(picture_.connections.begin(), picture_.connections.end(),
                                  [&](const Connection& c) { return c.card == card && c.row > 0; });
    return {std::max(sizes_[card].width + (side ? 2 * kSideMargin : 0), room_[card]), sizes_[card].height,
            below_[card], picture_.cards[card].band};
  }

  /// As if the net were one column.
  Drawing draw_whole() const {
    Column whole;
    return lay_out(plot_for(0, static_cast<int>(picture_.cards.size()), whole));
  }

  Plot plot_for(int first, int last, Column& column) const {
    Plot plot;
    const auto in_column = [&](int card) { return card >= first && card < last; };
    std::map<int, int> bands;
    for (int card = first; card < last; ++card) {
      column.cards.push_back(card);
      bands.emplace(picture_.cards[card].band, 0);
    }
    int count = 0;
    for (auto& [band, number] : bands) {
      if (band > 0) column.cuts.emplace_back(count - 1, picture_.cuts[band - 1]);
      number = count++;
    }
    if (!column.cuts.empty() && column.cuts[0].first < 0 && first > 0 &&
        picture_.cards[first - 1].band == picture_.cards[first].band)
      column.cuts.erase(column.cuts.begin());  // the column begins within the segment
    for (const int card : column.cards) {
      plot.boxes.push_back(box_of(card));
      plot.boxes.back().band = bands[picture_.cards[card].band];
    }
    for (std::size_t i = 0; i < picture_.connections.size(); ++i) {
      const Connection& connection = picture_.connections[i];
      if (!division_.tagged[i] || !in_column(connection.card)) continue;
      column.tags.push_back(static_cast<int>(i));
      const double width =
          text_width(shortened(picture_.blobs[connection.blob].name, kLongestName), kSmallSize) + 18;
      plot.boxes.push_back({width, 18, 0, bands[picture_.cards[connection.card].band], true});
    }
    plot.lines = count - 1;
    add_joints(first, last, count, column, plot);
    add_arcs(in_column, column, plot);
    return plot;
  }

  void add_joints(int first, int last, int bands, Column& column, Plot& plot) const {
    if (first > 0) {
      column.from_blob = trunk_at(picture_, division_.tagged, first);
      column.from_box = static_cast<int>(plot.boxes.size());
      const double room = 2 * text_width(trunk_text(column.from_blob), kSmallSize) + 24;
      plot.boxes.push_back({room, kJoint, 0, 0});
    }
    if (last < static_cast<int>(picture_.cards.size())) {
      column.to_blob = trunk_at(picture_, division_.tagged, last);
      column.to_box = static_cast<int>(plot.boxes.size());
      plot.boxes.push_back({kJoint, kJoint, 0, bands});
    }
  }
  std::string trunk_text(int blob) const {
    return shortened(picture_.blobs[blob].name, kLongestName) + "  " + picture_.blobs[blob].shape;
  }

  template <class InColumn>
  void add_arcs(const InColumn& in_column, Column& column, Plot& plot) const {
    std::size_t tag = 0;
    const int first = column.cards.front();
    const auto add = [&](const Arc& arc, int blob, int connection) {
      plot.arcs.push_back(arc);
      column.arc_blob.push_back(blob);
      column.arc_connection.push_back(connection);
    };
    for (std::size_t i = 0; i < picture_.connections.size(); ++i) {
      const Connection& connection = picture_.connections[i];
      if (!in_column(connection.card)) continue;
      const DrawnBlob& blob = picture_.blobs[connection.blob];
      Arc arc{0, 0, connection.card - first, connection.row > 0};
      if (division_.tagged[i]) {
        arc.from = static_cast<int>(column.cards.size() + tag++);
      } else if (in_column(blob.card)) {
        arc.from = blob.card - first;
        arc.from_x = port_x(blob);
      } else if (connection.blob == column.from_blob) {
        arc.from = column.from_box;
      } else {
        column.bridges.push_back(static_cast<int>(i));
        continue;
      }
      add(arc, connection.blob, static_cast<int>(i));
    }
    if (column.to_box < 0) return;
    const DrawnBlob& blob = picture_.blobs[column.to_blob];
    const bool here = in_column(blob.card);
    add({here ? blob.card - first : column.from_box, here ? port_x(blob) : 0, column.to_box, false},
        column.to_blob, -1);
  }

  void place(Column& column, const Plot& plot, const Drawing& drawing) {
    const auto at = [&](const Point& p) { return column.at(p); };
    for (std::size_t i = 0; i < column.cards.size(); ++i) {
      const Size& size = sizes_[column.cards[i]];
      const Point middle = at(drawing.middles[i]);
      scene_.cards.push_back(
          {column.cards[i], middle.x - size.width / 2, middle.y - size.height / 2, size.width, size.height});
    }
    for (std::size_t i = 0; i < column.tags.size(); ++i) {
      const std::size_t box = column.cards.size() + i;
      const Point middle = at(drawing.middles[box]);
      const Box& size = plot.boxes[box];
      scene_.tags.push_back({picture_.connections[column.tags[i]].blob, middle.x - size.width / 2,
                             middle.y - size.height / 2, size.width, size.height});
    }
    std::set<int> drawn;
    for (std::size_t a = 0; a < plot.arcs.size(); ++a) {
      Wire wire{column.arc_blob[a], drawing.curves[a], false, false};
      for (Point& point : wire.curve) point = at(point);
      if (plot.arcs[a].to_side) turn_in(column, a, plot, drawing, wire);
      drawn.insert(wire.blob);
      scene_.wires.push_back(std::move(wire));
    }
    add_labels(column, drawing, drawn);
    for (const auto& [band, text] : column.cuts)
      scene_.cuts.push_back(
          {column.x - 8, band < 0 ? -16 : drawing.band_ends[band], column.width + 16, text});
    if (column.from_box >= 0) column.from_joint = at(drawing.middles[column.from_box]);
    if (column.to_box >= 0) column.to_joint = at(drawing.middles[column.to_box]);
  }

  /// From above a card's margin down to the row and into it.
  void turn_in(const Column& column, std::size_t arc, const Plot& plot, const Drawing& drawing,
               Wire& wire) const {
    const Connection& connection = picture_.connections[column.arc_connection[arc]];
    const Size& size = sizes_[connection.card];
    const Point middle = column.at(drawing.middles[plot.arcs[arc].to]), end = wire.curve.back();
    const double side = end.x < middle.x ? -1 : 1;
    const double y = middle.y - size.height / 2 + row_top(connection.row) + kNextRow / 2;
    const double turn = column.upwards ? -8 : 8;
    const Point before{end.x, y - turn}, edge{middle.x + side * size.width / 2, y};
    wire.curve.insert(wire.curve.end(),
                      {end, before, before, {end.x, y - turn / 3}, {end.x - side * 3, y}, edge});
    wire.sideways = true;
  }

  void add_labels(const Column& column, const Drawing& drawing, const std::set<int>& drawn) {
    std::vector<std::vector<int>> of_card(column.cards.size());
    const int first = column.cards.front();
    for (std::size_t b = 0; b < picture_.blobs.size(); ++b) {
      const int card = picture_.blobs[b].card;
      if (card >= first && card - first < static_cast<int>(of_card.size()))
        of_card[card - first].push_back(static_cast<int>(b));
    }
    for (std::size_t c = 0; c < of_card.size(); ++c) {
      const Point middle = column.at(drawing.middles[c]);
      const double half = sizes_[first + c].height / 2, bottom = middle.y + (column.upwards ? -half : half);
      for (const int number : of_card[c]) {
        const DrawnBlob& blob = picture_.blobs[number];
        Label label{middle.x + port_x(blob) + 6, 0, label_lines(blob, picture_.cards[blob.card]), blob.notes};
        if (drawn.count(number) == 0 && !read_elsewhere(number)) {
          const Point from{label.x - 6, bottom}, to{from.x, bottom + (column.upwards ? -9 : 9)};
          scene_.wires.push_back({number, {from, from, to, to}, false, true});
        }
        if (of_card[c].size() > kMostLabels) {
          if (number != of_card[c].front()) continue;
          label.lines = {summary_of(of_card[c])};
          label.notes.clear();
        }
        label.y =
            column.upwards ? bottom - 5 - kLine * static_cast<double>(label.lines.size() - 1) : bottom + 12;
        scene_.labels.push_back(std::move(label));
      }
    }
  }
  /// Behind a tag, or in the other half of a folded net?
  bool read_elsewhere(int blob) const {
    for (std::size_t i = 0; i < division_.tagged.size(); ++i)
      if (division_.tagged[i] && picture_.connections[i].blob == blob) return true;
    return std::any_of(columns_.back().bridges.begin(), columns_.back().bridges.end(),
                       [&](int connection) { return picture_.connections[connection].blob == blob; });
  }

  /// From the right side of a card in the first half to the left side of one in the second.
  void add_bridges() {
    std::vector<const PlacedCard*> places(picture_.cards.size());
    for (const PlacedCard& card : scene_.cards) places[card.card] = &card;
    for (const int number : columns_[1].bridges) {
      const Connection& connection = picture_.connections[number];
      const PlacedCard &from = *places[picture_.blobs[connection.blob].card], &to = *places[connection.card];
      const Point begin{from.x + from.width, from.y + from.height / 2};
      const Point end{to.x,
                      to.y + row_top(connection.row) + (connection.row == 0 ? kFirstRow : kNextRow) / 2};
      const double reach = (end.x - begin.x) / 2;
      const Curve curve{begin, {begin.x + reach, begin.y}, {end.x - reach, end.y}, end};
      for (const PlacedCard& card : scene_.cards)
        scene_.bridges_touch_cards =
            scene_.bridges_touch_cards || (&card != &from && &card != &to && touches(curve, card));
      scene_.wires.push_back({connection.blob, curve, true, false});
    }
  }
  static bool touches(const Curve& c, const PlacedCard& card) {
    constexpr int kSamples = 64;
    for (int i = 0; i <= kSamples; ++i) {
      const double t = static_cast<double>(i) / kSamples, s = 1 - t;
      const double x =
          s * s * s * c[0].x + 3 * s * s * t * c[1].x + 3 * s * t * t * c[2].x + t * t * t * c[3].x;
      const double y =
          s * s * s * c[0].y + 3 * s * s * t * c[1].y + 3 * s * t * t * c[2].y + t * t * t * c[3].y;
      if (x > card.x && x < card.x + card.width && y > card.y && y < card.y + card.height) return true;
    }
    return false;
  }

  void add_trunks() {
    for (std::size_t c = 0; c + 1 < columns_.size(); ++c) {
      const Point from = columns_[c].to_joint, to = columns_[c + 1].from_joint;
      Trunk trunk{columns_[c].to_blob, {}};
      const double low = std::max(from.y, division_.folded ? to.y : 0) + 22;
      if (division_.folded) {
        trunk.corners = {from, {from.x, low}, {to.x, low}, to};
      } else {
        const double gutter = columns_[c].x + columns_[c].width + kColumnGap / 2, high = to.y - 24;
        trunk.corners = {from, {from.x, low}, {gutter, low}, {gutter, high}, {to.x, high}, to};
      }
      scene_.trunks.push_back(std::move(trunk));
      scene_.height = std::max(scene_.height, low + 6);
      scene_.labels.push_back({to.x + 10, to.y + 4, {trunk_text(columns_[c].to_blob)}, {}});
    }
  }

  const Picture& picture_;
  const LayoutEngine& engine_;
  Scene scene_;
  std::vector<Size> sizes_;           ///< per card
  std::vector<double> below_, room_;  ///< per card: height and width that its blobs' texts need
  std::vector<double> ports_;         ///< per blob
  Division division_;
  std::vector<Column> columns_;
};

}  // namespace

double mark_width(const std::string& mark) { return text_width(mark, kMarkSize) + 10; }

double row_top(int row) { return row == 0 ? 0 : kFirstRow + kNextRow * (row - 1); }

Scene arrange(const Picture& picture, const LayoutEngine& engine) {
  if (picture.cards.empty()) return {};
  Scene scene = Arranger(picture, engine, true).take();
  if (scene.bridges_touch_cards) scene = Arranger(picture, engine, false).take();
  return scene;
}

}  // namespace banyan::draw
