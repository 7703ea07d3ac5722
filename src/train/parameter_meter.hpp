// ParameterMeter: norms and histograms of the parameters that one device updates, without making its host
// wait: the device copies what is to be looked at, and the thread that writes metrics looks at it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "banyan/metrics/record.hpp"
#include "banyan/net/net.hpp"
#include "banyan/train/updater.hpp"

namespace banyan {

/// Of one iteration on one device; readable once the device is there.
struct ParameterSample {
  /// A stretch of a parameter.
  struct Piece {
    int parameter = 0;  ///< index in the net's list
    std::int64_t count = 0;
    bool learns = false;
    std::int64_t sampled = 0;               ///< values, and as many gradients if it learns
    std::size_t values = 0, gradients = 0;  ///< where they begin, in bytes
    std::size_t squares = 0;  ///< the first of its sums of squares: now; before, change, gradient
  };
  std::vector<Piece> pieces;
  DType dtype = DType::f32;
  std::shared_ptr<void> values, squares;  ///< host memory
  std::unique_ptr<Event> copied;
};

/// What records say of a parameter besides what is measured.
struct ParameterName {
  std::string name, layer;
  int index = 0;
  bool statistic = false;
};
std::vector<ParameterName> parameter_names(const Net& net);

/// Puts together what all devices have; waits for them.
metrics::Parameters measure_parameters(const std::vector<ParameterName>& names,
                                       const std::vector<std::shared_ptr<const ParameterSample>>& parts);

class ParameterMeter {
 public:
  /// Values and gradients of a parameter in a histogram: as many, evenly spread, or all if there are fewer.
  static constexpr std::int64_t kMostSampled = 1 << 14;

  /// `context`: that of the net's passes. `statistics`: those too (they are the same on all devices, or only
  /// the first one's count).
  ParameterMeter(Context& context, const Net& net, const std::vector<Updater::OwnedPiece>& owned,
                 bool statistics);
  /// Before the first pass of an iteration. False: the last sample is still being looked at.
  bool begin();
  /// After its update.
  std::shared_ptr<const ParameterSample> end();

 private:
  struct Source {
    Tensor value, gradient;
    Tensor before;  ///< a copy of the value
  };
  void add(int parameter, bool learns, const Tensor& value, const Tensor& gradient, std::int64_t most);
  void sample(const Tensor& from, std::int64_t count, std::int64_t& at);

  Context& context_;
  std::vector<Source> sources_;  ///< one for each piece
  std::shared_ptr<ParameterSample> sample_;
  std::shared_ptr<std::atomic<bool>> busy_ = std::make_shared<std::atomic<bool>>(false);  ///< looked at
  Tensor before_;   ///< the copies, one after the other
  Tensor staging_;  ///< what is copied to the host
  Tensor squares_;
};

}  // namespace banyan
