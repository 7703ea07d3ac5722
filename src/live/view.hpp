// View: what is known of a run that goes on, from its records and its board, and its picture in characters.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "banyan/metrics/record.hpp"
#include "banyan/observe/panel.hpp"
#include "banyan/observe/run_board.hpp"
#include "live/curve.hpp"

namespace banyan::live {

class View {
 public:
  static constexpr std::size_t kMostCharts = 16, kMostComponents = 4, kMostWarnings = 3;

  void take(const metrics::Record& record);
  /// What the board shows now.
  void look_at(const RunBoard& board);

  const std::vector<Chart>& charts() const { return charts_; }

  /// For a terminal of this size: fewer rows than it has, so that some are left for the log. Each is at most
  /// so wide.
  std::vector<std::string> rows(Panel::Size terminal, const Look& look) const;
  /// The curves alone, to be left behind at the end.
  std::vector<std::string> last_rows(int width, const Look& look) const;

 private:
  struct Shares {
    std::string device;
    double compute = 0, communication = 0, data = 0;  ///< of an iteration
  };
  void take_start(const metrics::Start& start, std::int64_t iteration);
  void take_train(const metrics::Train& train, std::int64_t iteration);
  void take_test(const metrics::Test& test, std::int64_t iteration);
  void take_outputs(const std::vector<metrics::Output>& outputs, const std::string& series,
                    std::int64_t iteration);
  void add_loss(const std::string& series, std::int64_t iteration, double loss);
  Chart* chart(const std::string& title);
  /// Loss first, then those of tests, then the others.
  std::vector<const Chart*> in_order() const;

  void draw_head(Canvas& canvas) const;
  void draw_charts(Canvas& canvas, int y, int height, const Look& look) const;
  void draw_devices(Canvas& canvas, int y, int count) const;
  void draw_warnings(Canvas& canvas, int y, int count) const;
  std::vector<std::string> compact_rows(int width, int count, const Look& look) const;

  std::string name_;
  std::string state_;  ///< how the run ended; "": it goes on
  ProgressNumbers numbers_;
  std::optional<double> epoch_, gradient_norm_;
  std::int64_t iteration_ = 0;  ///< of the last loss in its chart
  std::vector<Chart> charts_;   ///< the loss first, once there is one
  std::size_t left_out_ = 0;    ///< curves that no chart has room for
  std::vector<RunBoard::Device> devices_;
  std::vector<Shares> shares_;
  struct Warned {
    std::int64_t iteration = 0;
    std::string text;
  };
  std::deque<Warned> warnings_;  ///< the last ones
  std::size_t warning_count_ = 0;
};

}  // namespace banyan::live
