#include "draw/svg.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "draw/text.hpp"

namespace banyan::draw {
namespace {

constexpr double kMargin = 28, kHeader = 64, kLegendItem = 22;

std::string number(double value) {
  std::ostringstream out;
  out.precision(1);
  out << std::fixed << value + 0.0;
  std::string text = out.str();
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

std::string attributes(std::initializer_list<std::pair<const char*, double>> list) {
  std::string text;
  for (const auto& [name, value] : list) text += cat(" ", name, "=\"", number(value), "\"");
  return text;
}

class Writer {
 public:
  Writer(const Picture& picture, const Scene& scene) : picture_(picture), scene_(scene) {}

  std::string write() {
    const double least = 560;
    width_ = std::max(scene_.width, least) + 2 * kMargin;
    shift_ = std::max(0.0, (least - scene_.width) / 2);
    std::ostringstream body;
    std::swap(out_, body);
    header();
    out_ << "<g transform=\"translate(" << number(kMargin + shift_) << " " << number(kHeader + kMargin)
         << ")\">\n";
    for (const CutLine& cut : scene_.cuts) draw(cut);
    for (const Trunk& trunk : scene_.trunks) draw(trunk);
    for (const Wire& wire : scene_.wires) draw(wire);
    for (const PlacedCard& card : scene_.cards) draw(card);
    for (const Tag& tag : scene_.tags) draw(tag);
    for (const Label& label : scene_.labels) draw(label);
    out_ << "</g>\n";
    const double height = legend(kHeader + kMargin + scene_.height + 40);
    const std::string drawn = out_.str();
    std::ostringstream file;
    file << "<svg xmlns=\"http://www.w3.org/2000/svg\"" << attributes({{"width", width_}, {"height", height}})
         << " viewBox=\"0 0 " << number(width_) << " " << number(height) << "\" role=\"img\">\n<title>"
         << xml(picture_.title) << "</title>\n"
         << style() << "<rect class=\"page\" width=\"100%\" height=\"100%\"/>\n"
         << drawn << "</svg>\n";
    return file.str();
  }

 private:
  static std::string style() {
    std::ostringstream css;
    css << "<style>\n"
           "text{font-family:Helvetica,Arial,'Liberation Sans','DejaVu Sans',sans-serif;fill:#111827}\n"
           ".page{fill:#ffffff}.title{font-size:20px;font-weight:700}.facts{font-size:12px;fill:#5b6472}\n"
        << cat(".name{font-size:", kNameSize, "px;font-weight:700}.next{font-size:", kSmallSize,
               "px;font-weight:700}.what{font-size:", kSmallSize,
               "px;fill:#4b5563}.mark{font-size:", kMarkSize, "px}.label{font-size:", kSmallSize,
               "px;fill:#374151;stroke:#ffffff;stroke-width:3px;paint-order:stroke;stroke-linejoin:round}\n")
        << ".wire{fill:none;stroke:#8b95a5;stroke-width:1.4px}.trunk{fill:none;stroke:#8b95a5;stroke-width:2."
           "2px}\n"
           ".head{fill:#8b95a5}.pill{fill:#ffffff;stroke:#9aa3b0;stroke-width:0.8px}\n"
           ".pill.sync{fill:#7c3aed;stroke:none}.mark.sync{fill:#ffffff}\n"
           ".tag{fill:#ffffff;stroke:#64748b;stroke-dasharray:3 2}\n"
           ".cut{stroke:#d32222;stroke-width:1.3px;stroke-dasharray:7 "
           "4}.cuttext{font-size:10.5px;fill:#d32222}\n"
           ".card{fill:none;stroke-width:1.5px}.seam{stroke:#9aa3b0;stroke-width:0.8px;stroke-dasharray:2 "
           "2}\n"
           ".steps{fill:#f8fafc}\n";
    for (int kind = 0; kind < kKinds; ++kind)
      css << kind_style(kind, colour_of(kind).fill, colour_of(kind).line);
    css << "@media (prefers-color-scheme:dark){\n"
           "text{fill:#e8ebf0}.page{fill:#12161d}.facts,.what{fill:#a6afbd}\n"
           ".label{fill:#c6ccd6;stroke:#12161d}.wire,.trunk{stroke:#717c8c}.head{fill:#717c8c}\n"
           ".pill{fill:#12161d;stroke:#717c8c}.tag{fill:#12161d;stroke:#94a3b8}.seam{stroke:#5d6878}.steps{"
           "fill:#181d26}\n"
           ".pill.sync{fill:#a98bfa}.mark.sync{fill:#12161d}.cut{stroke:#f58080}.cuttext{fill:#f58080}\n";
    for (int kind = 0; kind < kKinds; ++kind)
      css << kind_style(kind, colour_of(kind).dark_fill, colour_of(kind).dark_line);
    css << "}\n</style>\n";
    return css.str();
  }

  static const Colour& colour_of(int kind) { return draw::colour_of(static_cast<Kind>(kind)); }
  static std::string kind_style(int kind, const char* fill, const char* line) {
    return cat(".f", kind, "{fill:", fill, "}.l", kind, "{stroke:", line, "}.b", kind, "{fill:", line, "}\n");
  }

  void text(double x, double y, const char* style, const std::string& words, const char* more = "") {
    out_ << "<text class=\"" << style << "\"" << attributes({{"x", x}, {"y", y}}) << more << ">" << xml(words)
         << "</text>\n";
  }
  void rectangle(const std::string& style, double x, double y, double width, double height,
                 double radius = 0) {
    out_ << "<rect class=\"" << style << "\""
         << attributes({{"x", x}, {"y", y}, {"width", width}, {"height", height}});
    if (radius > 0) out_ << attributes({{"rx", radius}});
    out_ << "/>\n";
  }

  void header() {
    text(kMargin, kMargin + 14, "title", shortened(picture_.title, 80));
    text(kMargin, kMargin + 36, "facts", join(picture_.facts, "  \u00b7  "));
  }

  void draw(const CutLine& cut) {
    out_ << "<line class=\"cut\""
         << attributes({{"x1", cut.x}, {"y1", cut.y}, {"x2", cut.x + cut.width}, {"y2", cut.y}}) << "/>\n";
    text(cut.x, cut.y - 4, "cuttext", cut.text);
  }

  void draw(const Trunk& trunk) {
    const auto& corners = trunk.corners;
    std::ostringstream path;
    path << "M" << number(corners[0].x) << " " << number(corners[0].y);
    for (std::size_t i = 1; i + 1 < corners.size(); ++i) {
      const Point before = towards(corners[i], corners[i - 1]), after = towards(corners[i], corners[i + 1]);
      path << "L" << number(before.x) << " " << number(before.y) << "Q" << number(corners[i].x) << " "
           << number(corners[i].y) << " " << number(after.x) << " " << number(after.y);
    }
    path << "L" << number(corners.back().x) << " " << number(corners.back().y);
    out_ << "<path class=\"trunk\" d=\"" << path.str() << "\"/>\n";
    for (const Point& end : {corners.front(), corners.back()})
      out_ << "<circle class=\"head\"" << attributes({{"cx", end.x}, {"cy", end.y}, {"r", 4}}) << "/>\n";
  }
  /// 10 from `corner`, or half way.
  static Point towards(const Point& corner, const Point& other) {
    const double dx = other.x - corner.x, dy = other.y - corner.y, length = std::hypot(dx, dy);
    const double step = length == 0 ? 0 : std::min(10.0, length / 2) / length;
    return {corner.x + dx * step, corner.y + dy * step};
  }

  void draw(const Wire& wire) {
    const Curve& curve = wire.curve;
    Point at = curve[0];
    std::ostringstream path;
    path << "M" << number(at.x) << " " << number(at.y);
    for (std::size_t i = 1; i + 2 < curve.size(); i += 3) {
      const Point &a = curve[i], &b = curve[i + 1], &end = curve[i + 2];
      const bool straight = a.x == at.x && b.x == end.x && at.x == end.x;
      if (straight)
        path << "V" << number(end.y);
      else
        path << "C" << number(a.x) << " " << number(a.y) << " " << number(b.x) << " " << number(b.y) << " "
             << number(end.x) << " " << number(end.y);
      at = end;
    }
    out_ << "<path class=\"wire\" d=\"" << path.str() << "\"/>\n";
    if (wire.open) {
      out_ << "<circle class=\"head\"" << attributes({{"cx", at.x}, {"cy", at.y}, {"r", 2.5}}) << "/>\n";
      return;
    }
    const double side = wire.sideways ? (curve[curve.size() - 2].x > at.x ? 1 : -1) : 0;
    out_ << "<path class=\"head\" d=\"M" << number(at.x) << " " << number(at.y);
    if (wire.sideways)
      out_ << "l" << number(side * 7) << " -3.5v7z\"/>\n";
    else
      out_ << "l-3.5 " << (at.y < curve.front().y ? "7h7z" : "-7h7z") << "\"/>\n";
  }

  void draw(const PlacedCard& placed) {
    const Card& card = picture_.cards[placed.card];
    out_ << "<g class=\"layer\">\n";
    for (std::size_t r = 0; r < card.rows.size(); ++r) draw_row(placed, card, static_cast<int>(r));
    if (!card.steps.empty()) {
      const double top = placed.y + row_top(static_cast<int>(card.rows.size()));
      rectangle("steps", placed.x, top, placed.width, kStepsRow);
      text(placed.x + 12, top + 12, "what", card.steps);
    }
    rectangle(cat("card l", static_cast<int>(card.rows[0].kind)), placed.x, placed.y, placed.width,
              placed.height, 5);
    out_ << "</g>\n";
  }

  void draw_row(const PlacedCard& placed, const Card& card, int index) {
    const Row& row = card.rows[index];
    const int kind = static_cast<int>(row.kind);
    const double top = placed.y + row_top(index), height = index == 0 ? kFirstRow : kNextRow;
    const bool first = index == 0, last = index + 1 == std::ssize(card.rows) && card.steps.empty();
    const double x = placed.x + 12;
    std::vector<std::string> notes{row.name + " (" + row.type + ")"};
    if (!row.settings.empty()) notes.push_back(row.settings);
    notes.insert(notes.end(), row.notes.begin(), row.notes.end());
    out_ << "<g>" << title(notes) << "\n";
    const std::string fill = cat("f", kind);
    rectangle(fill, placed.x, top, placed.width, height, first || last ? 5 : 0);
    // Square corners where the card goes on.
    if (first && !last) rectangle(fill, placed.x, top + height - 6, placed.width, 6);
    if (last && !first) rectangle(fill, placed.x, top, placed.width, 6);
    rectangle(cat("b", kind), placed.x, top + (first ? 4 : 0), 4, height - (first ? 4 : 0) - (last ? 4 : 0));
    if (!first)
      out_ << "<line class=\"seam\""
           << attributes({{"x1", placed.x + 4}, {"y1", top}, {"x2", placed.x + placed.width}, {"y2", top}})
           << "/>\n";
    const std::string name = shortened(row.name, kLongestName),
                      settings = shortened(row.settings, kLongestSettings);
    const std::string what = row.type + (settings.empty() ? "" : "  " + settings);
    if (first) {
      text(x, top + 16, "name", name);
      text(x, top + 30, "what", what);
    } else {
      text(x, top + 14.5, "next", "+ " + name);
      text(x + text_width("+ " + name + "  ", kSmallSize, true), top + 14.5, "what", what);
    }
    double right = placed.x + placed.width - 8;
    for (auto mark = row.marks.rbegin(); mark != row.marks.rend(); ++mark) {
      const double wide = mark_width(*mark);
      right -= wide;
      draw_mark(right, top + (first ? 5 : 4), wide, *mark);
      right -= 4;
    }
    out_ << "</g>\n";
  }
  void draw_mark(double x, double y, double width, const std::string& mark) {
    const std::string sync = mark.starts_with("sync") ? " sync" : "";
    rectangle("pill" + sync, x, y, width, 13, 6.5);
    text(x + width / 2, y + 9.8, ("mark" + sync).c_str(), mark, " text-anchor=\"middle\"");
  }

  void draw(const Tag& tag) {
    rectangle("tag", tag.x, tag.y, tag.width, tag.height, 9);
    text(tag.x + tag.width / 2, tag.y + 12.8, "what", shortened(picture_.blobs[tag.blob].name, kLongestName),
         " text-anchor=\"middle\"");
  }

  void draw(const Label& label) {
    if (label.lines.empty()) return;
    out_ << "<g>" << title(label.notes) << "\n";
    for (std::size_t i = 0; i < label.lines.size(); ++i)
      text(label.x, label.y + 12.5 * static_cast<double>(i), "label", label.lines[i]);
    out_ << "</g>\n";
  }

  static std::string title(const std::vector<std::string>& lines) {
    if (lines.empty()) return "";
    std::vector<std::string> escaped;
    for (const std::string& line : lines) escaped.push_back(xml(line));
    return "<title>" + join(escaped, "\n") + "</title>";
  }

  /// Returns the height of the page.
  double legend(double y) {
    struct Item {
      int kind;
      std::string mark, text;
    };
    std::vector<Item> items;
    std::vector<bool> used(kKinds, false);
    bool in_place = false, view = false, sync = false, shares = false;
    for (const Card& card : picture_.cards)
      for (const Row& row : card.rows) {
        used[static_cast<int>(row.kind)] = true;
        for (const std::string& mark : row.marks) {
          in_place = in_place || mark == "in place";
          view = view || mark == "view";
          sync = sync || mark.starts_with("sync");
          shares = shares || mark.starts_with("shares");
        }
      }
    for (int kind = 0; kind < kKinds; ++kind)
      if (used[kind]) items.push_back({kind, "", name_of(static_cast<Kind>(kind))});
    if (picture_.fused) items.push_back({-1, "+", "fused: runs in the step of the card"});
    if (in_place) items.push_back({-1, "in place", "overwrites its input"});
    if (view) items.push_back({-1, "view", "has no memory of its own"});
    if (sync) items.push_back({-1, "sync", "shares statistics with other devices"});
    if (shares) items.push_back({-1, "shares", "uses another layer's weights"});
    double x = kMargin;
    for (const Item& item : items) {
      const double swatch = item.mark.empty() ? 14 : mark_width(item.mark);
      const double wide = swatch + 6 + text_width(item.text, kSmallSize) + 18;
      if (x > kMargin && x + wide > width_ - kMargin) {
        x = kMargin;
        y += kLegendItem;
      }
      if (item.mark.empty())
        rectangle(cat("card f", item.kind, " l", item.kind), x, y - 10, 14, 12, 3);
      else
        draw_mark(x, y - 10.5, swatch, item.mark);
      text(x + swatch + 6, y, "what", item.text);
      x += wide;
    }
    return y + kMargin;
  }

  const Picture& picture_;
  const Scene& scene_;
  std::ostringstream out_;
  double width_ = 0, shift_ = 0;
};

}  // namespace

std::string to_svg(const Picture& picture, const Scene& scene) { return Writer(picture, scene).write(); }

}  // namespace banyan::draw
