#include "draw/division.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace banyan::draw {
namespace {

constexpr int kFarAway = 4;           ///< ranks
constexpr double kTallEnough = 1700;  ///< height from which on several columns are better
constexpr double kAspect = 1.3;       ///< of all columns together
constexpr int kMostColumns = 10;
constexpr double kBetween = 70;      ///< columns
constexpr std::size_t kBridges = 3;  ///< that make a U, with the trunk
constexpr double kUnevenU = 0.15;    ///< of the height: most by which the lower end may be off the middle

class Divider {
 public:
  Divider(const Picture& picture, const std::vector<bool>& tagged, const Drawing& whole)
      : picture_(picture), whole_(whole), crossing_(picture.cards.size()) {
    for (std::size_t i = 0; i < picture.connections.size(); ++i) {
      const Connection& connection = picture.connections[i];
      if (tagged[i]) continue;
      for (int place = picture.blobs[connection.blob].card + 1; place <= connection.card; ++place)
        crossing_[place].insert(connection.blob);
    }
  }

  std::vector<int> columns() const {
    std::vector<int> chosen{0};
    double best = score(chosen);
    for (int count = 2; count <= kMostColumns; ++count) {
      const std::vector<int> first = fewest_within(lowest_limit(count));
      if (const double now = score(first); now < best) {
        best = now;
        chosen = first;
      }
    }
    chosen.push_back(static_cast<int>(picture_.cards.size()));
    return chosen;
  }

  /// The lower end of a U; -1: there is none.
  int fold() const {
    int best = -1;
    const auto off_middle = [&](int place) { return std::abs(y_of(place) / whole_.height - 0.5); };
    for (int place = 1; place < static_cast<int>(picture_.cards.size()); ++place) {
      if (crossing_[place].size() < kBridges + 1 || !nested(place) || off_middle(place) > kUnevenU) continue;
      const bool better =
          best < 0 || crossing_[place].size() > crossing_[best].size() ||
          (crossing_[place].size() == crossing_[best].size() && off_middle(place) < off_middle(best));
      if (better) best = place;
    }
    return best;
  }

 private:
  double y_of(int card) const { return whole_.middles[card].y; }
  double end_of(const std::vector<int>& first, std::size_t column) const {
    return column + 1 < first.size() ? y_of(first[column + 1]) : whole_.height;
  }

  /// How far from a good shape the columns are together, and how uneven they are.
  double score(const std::vector<int>& first) const {
    double highest = 0;
    for (std::size_t c = 0; c < first.size(); ++c)
      highest = std::max(highest, end_of(first, c) - y_of(first[c]));
    const double count = static_cast<double>(first.size());
    const double aspect = (whole_.width + kBetween) * count / highest;
    return std::abs(std::log(aspect / kAspect)) + 1 - whole_.height / count / highest;
  }

  /// First cards of columns that are no higher than `limit`, where the net can be cut.
  std::vector<int> fewest_within(double limit) const {
    std::vector<int> first{0};
    int last = -1;
    for (int place = 1; place <= static_cast<int>(picture_.cards.size()); ++place) {
      const bool end = place == static_cast<int>(picture_.cards.size());
      if (!end && crossing_[place].size() != 1) continue;
      if ((end ? whole_.height : y_of(place)) - y_of(first.back()) > limit && last > first.back())
        first.push_back(last);
      last = place;
    }
    return first;
  }
  /// The least that leads to at most `count` columns.
  double lowest_limit(int count) const {
    double low = 0, high = whole_.height;
    for (int step = 0; step < 30; ++step) {
      const double middle = (low + high) / 2;
      (std::ssize(fewest_within(middle)) <= count ? high : low) = middle;
    }
    return high;
  }

  /// The later a blob is made before `place`, the earlier it is read after it.
  bool nested(int place) const {
    std::vector<std::pair<int, int>> made_and_read;
    for (const int blob : crossing_[place]) {
      int read = -1;
      for (const Connection& connection : picture_.connections) {
        if (connection.blob != blob || connection.card < place) continue;
        if (read >= 0 && read != connection.card) return false;
        read = connection.card;
      }
      made_and_read.emplace_back(picture_.blobs[blob].card, -read);
    }
    std::sort(made_and_read.begin(), made_and_read.end());
    for (std::size_t i = 1; i < made_and_read.size(); ++i)
      if (made_and_read[i].second < made_and_read[i - 1].second) return false;
    return true;
  }

  const Picture& picture_;
  const Drawing& whole_;
  std::vector<std::set<int>> crossing_;  ///< per card: blobs made before it and read from there on
};

}  // namespace

std::vector<bool> find_tags(const Picture& picture) {
  Plot plot;
  for (const Card& card : picture.cards) plot.boxes.push_back({0, 0, 0, card.band});
  for (const Connection& connection : picture.connections)
    plot.arcs.push_back({picture.blobs[connection.blob].card, 0, connection.card, false});
  const Ranked ranked = find_ranks(plot);
  std::vector<bool> tagged;
  for (const Connection& connection : picture.connections) {
    const DrawnBlob& blob = picture.blobs[connection.blob];
    const int far = ranked.nodes[connection.card].rank - ranked.nodes[blob.card].rank;
    tagged.push_back(blob.from_source && far > kFarAway);
  }
  return tagged;
}

Division divide(const Picture& picture, const std::vector<bool>& tagged, const Drawing& whole,
                bool may_fold) {
  const int cards = static_cast<int>(picture.cards.size());
  Division division{tagged, {0, cards}, false};
  if (whole.height < kTallEnough) return division;
  const Divider divider(picture, tagged, whole);
  if (const int place = may_fold ? divider.fold() : -1; place > 0) {
    division.first = {0, place, cards};
    division.folded = true;
  } else {
    division.first = divider.columns();
  }
  return division;
}

int trunk_at(const Picture& picture, const std::vector<bool>& tagged, int place) {
  int newest = -1;
  for (std::size_t i = 0; i < picture.connections.size(); ++i) {
    const Connection& connection = picture.connections[i];
    const int card = picture.blobs[connection.blob].card;
    if (tagged[i] || card >= place || connection.card < place) continue;
    if (newest < 0 || card > picture.blobs[newest].card) newest = connection.blob;
  }
  return newest;
}

}  // namespace banyan::draw
