// PictureMeter: what the first device's net is shown, and the filters of its first layer, as pictures. The
// device copies them, the thread that writes metrics draws.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "banyan/metrics/record.hpp"
#include "banyan/net/net.hpp"

namespace banyan {

/// Values N x C x H x W to be drawn: N pictures side by side, in colour if C is 3 (B, G, R), else C gray ones
/// of each. The least value is black and the greatest white.
struct PictureValues {
  std::string tag;
  Shape shape;
  std::vector<double> values;  ///< in logical order
  bool signed_values = false;  ///< 0 is drawn as gray: the least value is minus the greatest
};
metrics::Pictures::Picture draw_picture(const PictureValues& values);

class PictureMeter {
 public:
  static constexpr std::int64_t kMostSamples = 8, kMostFilters = 64;

  PictureMeter(Context& context, const Net& net);
  /// Is there nothing to draw in this net?
  bool empty() const { return inputs_.empty() && filters_ == nullptr; }
  /// After an iteration. What draws its pictures; nothing while the last ones are still being drawn.
  std::function<metrics::Pictures()> take();

 private:
  struct Copy {
    std::string tag;
    Shape shape;
    Layout layout = Layout::contiguous;
    DType dtype = DType::f32;
    bool signed_values = false;
    std::shared_ptr<void> memory;  ///< host
    std::size_t room = 0;          ///< bytes
  };
  struct Copies {
    std::vector<Copy> copies;
    std::unique_ptr<Event> copied;
    std::atomic<bool> busy{false};  ///< looked at
  };
  static metrics::Pictures draw_all(const Copies& copies);
  void copy(Copy& to, const std::string& tag, const Tensor& from, std::int64_t most, bool signed_values);

  Context& context_;
  std::vector<const Blob*> inputs_;
  const LearnableParameter* filters_ = nullptr;
  std::shared_ptr<Copies> copies_;
};

}  // namespace banyan
