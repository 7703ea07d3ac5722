#include "draw/graphviz.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <sstream>
#include <thread>

#include "banyan/base/error.hpp"
#include "banyan/base/text.hpp"
#include "draw/text.hpp"

namespace banyan::draw {
namespace {

constexpr double kPerInch = 72;
constexpr double kLineRoom = 24;  ///< height, for a line between bands with its text
constexpr auto kPatience = std::chrono::seconds(60);

/// In quotes; Graphviz reads backslashes in labels as commands.
std::string dot_text(const std::string& text) {
  std::string out = "\"";
  for (const char c : shortened(text, 200)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}
/// Lines of a label, each escaped.
std::string dot_lines(const std::vector<std::string>& lines) {
  std::vector<std::string> parts;
  for (const std::string& line : lines) {
    const std::string text = dot_text(line);
    parts.push_back(text.substr(1, text.size() - 2));
  }
  return "\"" + join(parts, "\\n") + "\"";
}

std::string node_of(const Card& card, int number) {
  std::vector<std::string> lines;
  for (const Row& row : card.rows) {
    lines.push_back((lines.empty() ? "" : "+ ") + row.name);
    std::string what = row.type + (row.settings.empty() ? "" : " " + row.settings);
    for (const std::string& mark : row.marks) what += " [" + mark + "]";
    if (lines.size() == 1)
      lines.push_back(what);
    else
      lines.back() += " " + what;
  }
  if (!card.steps.empty()) lines.push_back(card.steps);
  const Colour& fill = colour_of(card.rows[0].kind);
  return cat("  n", number, " [label=", dot_lines(lines), ", color=\"", fill.line, "\", fillcolor=\"",
             fill.fill, "\"];\n");
}

class Descriptor {
 public:
  explicit Descriptor(const char* name) : number_(::memfd_create(name, MFD_CLOEXEC)) {
    if (number_ < 0) runtime_failure("cannot make a file in memory: ", std::strerror(errno));
  }
  ~Descriptor() { ::close(number_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

  void write(const std::string& text) {
    for (std::size_t done = 0; done < text.size();) {
      const auto now = ::write(number_, text.data() + done, text.size() - done);
      if (now <= 0) runtime_failure("cannot write a file in memory: ", std::strerror(errno));
      done += static_cast<std::size_t>(now);
    }
    ::lseek(number_, 0, SEEK_SET);
  }
  std::string read() const {
    std::string text;
    char bytes[65536];
    ::lseek(number_, 0, SEEK_SET);
    for (ssize_t now; (now = ::read(number_, bytes, sizeof bytes)) > 0;)
      text.append(bytes, static_cast<std::size_t>(now));
    return text;
  }

 private:
  int number_;
};

/// The exit status of `words`, a program in the PATH; -1: it cannot be started; -2: it took too long.
int run(const std::vector<const char*>& words, const Descriptor& in, const Descriptor& out,
        const Descriptor& error) {
  std::vector<char*> arguments;
  for (const char* word : words) arguments.push_back(const_cast<char*>(word));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in.number(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, out.number(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, error.number(), STDERR_FILENO);
  posix_spawnattr_t attributes;  // this thread may take no signals; the program does
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, arguments[0], &actions, &attributes, arguments.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return -1;
  const auto end = std::chrono::steady_clock::now() + kPatience;
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > end) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      return -2;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string inches(double pixels) { return cat(pixels / kPerInch); }

int bands_of(const Plot& plot) {
  int bands = 1;
  for (const Box& box : plot.boxes) bands = std::max(bands, box.band + 1);
  return bands;
}

/// Moves the ends of a curve, and the handles next to them, sideways.
void move_ends(Curve& curve, double begin_x, double end_x) {
  const double begin = begin_x - curve.front().x, end = end_x - curve.back().x;
  curve[0].x += begin;
  curve[1].x += begin;
  curve[curve.size() - 2].x += end;
  curve.back().x += end;
}

}  // namespace

std::string to_dot(const Picture& picture) {
  std::ostringstream out;
  out << "digraph " << dot_text(picture.title)
      << " {\n  node [shape=box, style=\"rounded,filled\", fontname=Helvetica, fontsize=11];\n"
         "  edge [fontname=Helvetica, fontsize=9, color=\"#8b95a5\"];\n";
  std::size_t band = 0;
  for (std::size_t c = 0; c < picture.cards.size(); ++c) {
    const auto wanted = static_cast<std::size_t>(picture.cards[c].band);
    for (; band < wanted; ++band)
      out << (band > 0 ? "  }\n" : "") << "  subgraph cluster_" << band + 1
          << " {\n  style=dashed; color=\"#d32222\"; label=" << dot_text(picture.cuts[band]) << ";\n";
    out << node_of(picture.cards[c], static_cast<int>(c));
  }
  if (band > 0) out << "  }\n";
  for (const Connection& connection : picture.connections) {
    const DrawnBlob& blob = picture.blobs[connection.blob];
    std::vector<std::string> lines{blob.shape};
    if (!blob.place.empty()) lines.push_back(blob.place);
    out << "  n" << blob.card << " -> n" << connection.card << " [label=" << dot_lines(lines) << "];\n";
  }
  out << "}\n";
  return out.str();
}

bool have_graphviz() {
  const Descriptor in("in"), out("out"), error("error");
  return run({"dot", "-V"}, in, out, error) == 0;
}

std::string layout_request(const Plot& plot) {
  std::ostringstream out;
  out << "digraph {\n graph [ranksep=" << inches(36) << ", nodesep=" << inches(24)
      << "];\n node [shape=box, fixedsize=true, label=\"\"];\n edge [dir=none];\n";
  for (std::size_t b = 0; b < plot.boxes.size(); ++b)
    out << " n" << b << " [width=" << inches(plot.boxes[b].width)
        << ", height=" << inches(plot.boxes[b].height + plot.boxes[b].below) << "];\n";
  std::vector<bool> has_next(plot.boxes.size(), false), has_last(plot.boxes.size(), false);
  for (const Arc& arc : plot.arcs) {
    out << " n" << arc.from << " -> n" << arc.to << " [tailport=s, headport=n];\n";
    if (plot.boxes[arc.from].band != plot.boxes[arc.to].band) continue;
    has_next[arc.from] = true;
    has_last[arc.to] = true;
  }
  for (int band = 0; band + 1 < bands_of(plot); ++band) {
    const double room = band < plot.lines ? kLineRoom : 1;
    out << " b" << band << " [width=0.01, height=" << inches(room) << "];\n";
    for (std::size_t b = 0; b < plot.boxes.size(); ++b) {
      if (plot.boxes[b].band == band && !has_next[b])
        out << " n" << b << " -> b" << band << " [style=invis, weight=0];\n";
      if (plot.boxes[b].band == band + 1 && !has_last[b])
        out << " b" << band << " -> n" << b << " [style=invis, weight=0];\n";
    }
  }
  out << "}\n";
  return out.str();
}

Drawing read_plain(const std::string& text, const Plot& plot) {
  Drawing drawing;
  drawing.middles.resize(plot.boxes.size());
  drawing.curves.resize(plot.arcs.size());
  drawing.band_ends.resize(bands_of(plot) - 1);
  std::multimap<std::pair<int, int>, std::size_t> arcs;
  for (std::size_t a = 0; a < plot.arcs.size(); ++a) arcs.insert({{plot.arcs[a].from, plot.arcs[a].to}, a});
  const auto fail = [](const std::string& line) {
    runtime_failure("dot printed a line that is not understood: ", quoted(line));
  };
  std::istringstream lines(text);
  std::vector<bool> placed(plot.boxes.size(), false);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word, name, other;
    words >> word;
    if (word == "graph") {
      double scale = 0;
      words >> scale >> drawing.width >> drawing.height;
      drawing.width *= kPerInch;
      drawing.height *= kPerInch;
    } else if (word == "node") {
      double x = 0, y = 0;
      std::size_t number = 0;
      words >> name >> x >> y;
      if (!words || name.size() < 2 || !(std::istringstream(name.substr(1)) >> number)) fail(line);
      const Point at{x * kPerInch, drawing.height - y * kPerInch};
      if (name[0] == 'b' && number < drawing.band_ends.size()) {
        drawing.band_ends[number] = at.y;
      } else if (name[0] == 'n' && number < plot.boxes.size()) {
        drawing.middles[number] = {at.x, at.y - plot.boxes[number].below / 2};
        placed[number] = true;
      } else {
        fail(line);
      }
    } else if (word == "edge") {
      std::size_t count = 0;
      words >> name >> other >> count;
      if (!words || name.empty() || other.empty()) fail(line);
      if (name[0] == 'b' || other[0] == 'b') continue;
      int from = -1, to = -1;
      if (!(std::istringstream(name.substr(1)) >> from) || !(std::istringstream(other.substr(1)) >> to))
        fail(line);
      const auto arc = arcs.find({from, to});
      if (arc == arcs.end() || count < 4 || count % 3 != 1 || count > line.size()) fail(line);
      Curve& curve = drawing.curves[arc->second];
      for (std::size_t i = 0; i < count; ++i) {
        Point point;
        words >> point.x >> point.y;
        curve.push_back({point.x * kPerInch, drawing.height - point.y * kPerInch});
      }
      if (!words) fail(line);
      arcs.erase(arc);
    }
  }
  if (!arcs.empty() || std::count(placed.begin(), placed.end(), false) > 0)
    runtime_failure("dot left out a part of the graph");
  for (std::size_t a = 0; a < plot.arcs.size(); ++a) {
    const Arc& arc = plot.arcs[a];
    Curve& curve = drawing.curves[a];
    const Box &from = plot.boxes[arc.from], &to = plot.boxes[arc.to];
    const Point start = drawing.middles[arc.from], end = drawing.middles[arc.to];
    double end_x = end.x;
    if (arc.to_side)
      end_x += (curve[curve.size() > 4 ? curve.size() - 4 : 0].x < end.x - 1 ? -1 : 1) *
               (to.width - kSideMargin) / 2;
    move_ends(curve, start.x + arc.from_x, end_x);
    curve.back().y = end.y - to.height / 2;
    const Point top{curve[0].x, start.y + from.height / 2};
    curve.insert(curve.begin(), {top, top, curve[0]});
  }
  return drawing;
}

std::vector<Drawing> lay_out_with_graphviz(const std::vector<Plot>& plots) {
  std::string request;
  for (const Plot& plot : plots) request += layout_request(plot);
  Descriptor in("graphs");
  const Descriptor out("plain"), error("messages");
  in.write(request);
  const int status = run({"dot", "-Tplain"}, in, out, error);
  if (status == -1) runtime_failure("Graphviz' program dot cannot be started; --layout=own does without it");
  if (status == -2)
    runtime_failure("Graphviz' program dot takes more than a minute; --layout=own does without it");
  if (status != 0) runtime_failure("Graphviz' program dot failed: ", quoted(error.read()));
  const std::string text = out.read();
  std::vector<Drawing> drawings;
  std::size_t begin = 0;
  for (const Plot& plot : plots) {
    const std::size_t end = text.find("\nstop\n", begin);
    if (end == std::string::npos) runtime_failure("dot printed too few graphs");
    drawings.push_back(read_plain(text.substr(begin, end - begin), plot));
    begin = end + 6;
  }
  return drawings;
}

}  // namespace banyan::draw
