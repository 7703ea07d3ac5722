// Images of people named in a list with their joints, and the maps of them that DataHeatmap makes
// (caffe-heatmap).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "banyan/data/item_writer.hpp"
#include "banyan/ops/random.hpp"
#include "proto/banyan.pb.h"

namespace banyan::data {

/// Throws bad_input for settings that cannot be followed; reads no file. `layer` is for messages.
void check_heatmaps(const caffe::HeatmapDataParameter& settings, const std::string& layer);

/// A list with a line per image: `image x,y,x,y,... crop cluster`. Records hold the image (B, G, R), the
/// coordinates that labelinds chooses in `labels`, and with `segmentation` a mask in `label_image`. With
/// sample_per_cluster the clusters take turns, each from an image on that `starts` draws, and an epoch is as
/// many turns as the largest cluster has images. Throws bad_input `file:line: ...`.
std::shared_ptr<RecordSource> open_heatmap_list(const caffe::HeatmapDataParameter& settings,
                                                const ops::RandomKey& starts);

/// Outputs: pixels R, G, B times `scale`, 3 x outsize x outsize; maps joints x label_height x label_width, 1
/// plus four times a normal density with a deviation of 1.5 around each joint. Pixels of the mask are 0, and
/// so are those right of and below a smaller image. What is cut out is cropsize x cropsize: with random_crop
/// any part, mirrored with probability 1/2 and turned; else the middle.
class HeatmapWriter : public ItemWriter {
 public:
  HeatmapWriter(const caffe::HeatmapDataParameter& settings, const ops::RandomKey& key);
  std::vector<Shape> shapes(const Record& record, std::uint64_t item) const override;
  void write(const Record& record, std::uint64_t item, const ItemPlace& place) const override;

 private:
  struct Change;
  Change draw(const Record& record, std::uint64_t item) const;
  std::vector<float> pixels(const Record& record, const Change& change) const;
  std::vector<double> maps(const Record& record, const Change& change) const;

  caffe::HeatmapDataParameter settings_;
  ops::RandomKey key_;
};

/// What the settings say of images and maps without a list. No axes: they do not tell.
Shape heatmap_images(const caffe::HeatmapDataParameter& settings);
Shape heatmap_maps(const caffe::HeatmapDataParameter& settings, std::int64_t items, std::int64_t joints);
/// The joints that labelinds chooses; 0: all that the list has.
std::int64_t chosen_joints(const caffe::HeatmapDataParameter& settings);

}  // namespace banyan::data
