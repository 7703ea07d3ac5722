// Pooling over parts of videos against loops written from its definition.
#include "banyan/ops/video_regions.hpp"

#include <array>

#include "ops/device_fixture.hpp"

namespace banyan {
namespace {

constexpr std::int64_t kVideos = 2, kOfVideo = 3, kVideoLength = 7, kVideoRows = 5, kVideoColumns = 4,
                       kParts = 6;
/// Inside, beyond the end, one step, upside down, outside, of no video. Times by a half are not close to
/// where they are rounded.
const std::vector<double> kVideoParts = {0, 1.5, 8.4, 1, -6, 40, 1, 4, 4, 0, 11.5, 5, 1, 60, 90, 2, 0, 8};

class VideoRegions : public DeviceTest {};

TEST_P(VideoRegions, MaximumFollowsItsDefinition) {
  for (const auto& [l, h, w] : {std::array<std::int64_t, 3>{1, 4, 4}, {3, 2, 3}, {4, 1, 1}}) {
    const ops::VideoBins bins{l, h, w, 0.5};
    const Shape in{kVideos, kOfVideo, kVideoLength, kVideoRows, kVideoColumns},
        out{kParts, kOfVideo, l, h, w};
    const std::vector<double> x = rounded(random_values(in.count(), 1)),
                              dy = rounded(random_values(out.count(), 2));
    std::vector<double> y(static_cast<std::size_t>(out.count()), 0), mask(y.size(), -1), dx(x.size(), 0);
    for (std::int64_t i = 0; i < out.count(); ++i) {
      const std::int64_t part = i / out.count(1), c = i / out.count(2) % kOfVideo;
      const double* const at = &kVideoParts[static_cast<std::size_t>(3 * part)];
      if (at[0] >= kVideos) continue;
      const double begin = std::round(at[1] * 0.5),
                   size = std::max(std::round(at[2] * 0.5) - begin + 1, 1.0) / static_cast<double>(l);
      const double tiny = 1e-9;  // the bins' borders are fractions
      const auto first = [&](double length, std::int64_t bin) {
        return static_cast<std::int64_t>(std::floor(length * static_cast<double>(bin) + tiny));
      };
      const auto end = [&](double length, std::int64_t bin) {
        return static_cast<std::int64_t>(std::ceil(length * static_cast<double>(bin + 1) - tiny));
      };
      const std::int64_t bl = i / out.count(3) % l, bh = i / w % h, bw = i % w;
      const double high = static_cast<double>(kVideoRows) / static_cast<double>(h),
                   wide = static_cast<double>(kVideoColumns) / static_cast<double>(w);
      const std::size_t element = static_cast<std::size_t>(i);
      const auto start = static_cast<std::int64_t>(begin);
      const std::int64_t plane = (static_cast<std::int64_t>(at[0]) * kOfVideo + c) * in.count(2);
      for (std::int64_t t = start + first(size, bl); t < start + end(size, bl); ++t)
        for (std::int64_t r = first(high, bh); r < end(high, bh); ++r)
          for (std::int64_t s = first(wide, bw); s < end(wide, bw); ++s) {
            if (t < 0 || t >= kVideoLength) continue;
            const std::int64_t place = (t * kVideoRows + r) * kVideoColumns + s;
            const double value = x[static_cast<std::size_t>(plane + place)];
            if (mask[element] >= 0 && value <= y[element]) continue;
            y[element] = value;
            mask[element] = static_cast<double>(place);
          }
      if (mask[element] >= 0)
        dx[static_cast<std::size_t>(plane) + static_cast<std::size_t>(mask[element])] += dy[element];
    }
    const Tensor input = make(in, x), above = make(out, dy), parts = make({kParts, 3}, kVideoParts);
    Tensor output = empty(out), gradient = empty(in);
    Tensor chosen(device(), out, DType::i32);
    ops::video_maximum(context(), bins, input, parts, output, chosen);
    EXPECT_EQ(values(output), y);
    EXPECT_EQ(values(chosen), mask);
    ops::video_maximum_backward(context(), bins, above, parts, chosen, gradient);
    expect_near(values(gradient), dx, 64 * epsilon());
  }
}

BANYAN_ON_ALL_DEVICES(VideoRegions);

}  // namespace
}  // namespace banyan
