// R-CNN's window files: images with windows, of which some hold an object (foreground) and some do not.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "banyan/data/augmenter.hpp"
#include "banyan/data/item_writer.hpp"
#include "banyan/data/record.hpp"

namespace banyan::data {

/// Both corners belong to the window.
struct ObjectWindow {
  std::uint32_t image = 0;
  std::int32_t label = 0;
  int x1 = 0, y1 = 0, x2 = 0, y2 = 0;
};

struct WindowList {
  struct ListedFile {
    std::string path;
    int height = 0, width = 0;
  };
  std::vector<ListedFile> images;
  std::vector<ObjectWindow> foreground, background;  ///< the latter have label 0
};

/// Blocks of `# number`, path, channels, height, width, number of windows, and for each window its label, its
/// overlap with an object, x1, y1, x2, y2. Windows with an overlap of `foreground` or more are foreground,
/// others below `background` are background, the rest is left out. Throws bad_input `file:line: ...`.
WindowList read_window_list(const std::string& path, float foreground, float background);

struct WindowOptions {
  std::string root_folder;  ///< prepended to each path as is
  float fg_threshold = 0.5f, bg_threshold = 0.5f;
  float fg_fraction = 0.25f;  ///< of every batch, at its end, rounded down
  std::uint64_t batch = 1;    ///< items of all devices
  bool cache_images = false;  ///< keep image files in memory
  ops::RandomKey key;
};

/// Endless: record s is the window drawn for item s, at random by (key, s). The list is read once per
/// process. Throws bad_input for a list without windows of a kind that batches need.
std::shared_ptr<RecordSource> open_window_list(const std::string& path, const WindowOptions& options);

/// The window of a record, warped to crop_size x crop_size as R-CNN does: it is enlarged so that context_pad
/// pixels on every side are context, made square before that if asked, and what lies outside of the image is
/// 0. Mean and scale are those of transform_param; a mean image is read from its middle.
class WindowWriter : public ItemWriter {
 public:
  WindowWriter(const caffe::TransformationParameter& settings, int context_pad, bool square,
               const ops::RandomKey& key, const std::string& layer);
  std::vector<Shape> shapes(const Record& record, std::uint64_t item) const override;
  void write(const Record& record, std::uint64_t item, const ItemPlace& place) const override;

 private:
  template <class T>
  void write_pixels(const Record& record, bool mirror, Layout layout, T* output) const;

  int crop_, context_pad_;
  bool square_, mirror_;
  float scale_;
  std::vector<float> mean_values_;
  MeanImage mean_;
  ops::RandomKey key_;
};

}  // namespace banyan::data
