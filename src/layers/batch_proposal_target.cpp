// BatchProposalTarget: ProposalTarget as MS-CNN and Cascade R-CNN have it (with cls_num), a sample of the
// regions of all images together. Inputs: regions (R x 5: image, x1, y1, x2, y2) and true boxes, rows of 7 or
// more (image, x1, y1, x2, y2, class, whether it is ignored; image -1: not used), which with append_gtbox are
// regions, too. Outputs, with batch_size rows at most, for -1 with all: regions (5), labels (1), shifts to
// the true boxes (4 for each class, or 8 in all without cls_aware), their inside and outside weights, true
// boxes (6: class, x1, y1, x2, y2, overlap; zeros for background), and perhaps weights of the rows (1).
//
// Regions that overlap a true box by at least fg_thr are objects, or nothing if it is ignored; those from
// bg_thr_lw to below bg_thr_hg background. fg_fraction * batch_size objects are drawn at most, the rest from
// the background; where that is too little, pickup_discard adds regions with other overlaps, the first ones.
// If there is nothing at all, one row holds a box of background that is drawn. On several devices each looks
// at its own part of the batch.
//
// How many rows there are is known only in the pass (LayerTraits::chooses_samples).
#include <cmath>

#include "box_layer.hpp"

namespace banyan {
namespace {

class BatchProposalTargetLayer : public BoxLayer {
 public:
  BatchProposalTargetLayer(const caffe::LayerParameter& parameter, const LayerOptions& options)
      : BoxLayer(parameter, options, {2, 2, 6, 7}) {
    traits_.chooses_samples = true;
  }

  void read_settings() override {
    const auto& s = settings();
    if (s.cls_num() < 2) refuse("cls_num must be at least 2: background and objects; found ", s.cls_num());
    if (s.batch_size() < 1 && s.batch_size() != -1)
      refuse("batch_size must be positive, or -1: all; found ", s.batch_size());
    check_fraction("fg_fraction", s.fg_fraction());
    check_fraction("fg_thr", s.fg_thr());
    check_fraction("bg_thr_lw", s.bg_thr_lw());
    if (!(s.fg_thr() >= s.bg_thr_hg()))
      refuse("fg_thr ", s.fg_thr(), " must not be below bg_thr_hg ", s.bg_thr_hg());
    scale_ = read_bbox_reg();
    slots_ = parameter_.bbox_reg_param().cls_aware() ? std::int64_t{s.cls_num()} : 2;
  }

  void reshape(const Blobs& inputs, const Blobs& outputs) override {
    const Shape &rois = inputs[0]->shape, &boxes = inputs[1]->shape;
    if (rois.axes() < 2 || rois.count(1) != 5)
      refuse(quoted(inputs[0]->name), " is ", rois.to_string(), "; expected R x 5: image, x1, y1, x2, y2");
    if (boxes.axes() < 2 || (boxes[-1] < 7 && boxes.count(1) < 7))
      refuse(quoted(inputs[1]->name), " is ", boxes.to_string(),
             "; expected rows of 7 or more: image, x1, y1, x2, y2, class, whether it is ignored");
    columns_ = boxes[-1] < 7 ? boxes.count(1) : boxes[-1];
    std::int64_t rows = settings().batch_size();
    if (rows < 0) rows = rois[0] + boxes.count() / columns_;
    if (rois[0] == 0) rows = 0;
    const std::int64_t numbers[] = {5, 1, 4 * slots_, 4 * slots_, 4 * slots_, 6, 1};
    // Four axes, as ProposalTarget has them.
    for (std::size_t i = 0; i < outputs.size(); ++i) set_output(*outputs[i], Shape{rows, numbers[i], 1, 1});
  }

  std::int64_t choose_samples(Pass& pass, const Blobs& inputs) override {
    sample_ = {};
    regions_.clear();
    truth_.clear();
    if (inputs[0]->shape[0] == 0) return 0;
    read(values_of(*pass.context, inputs[0]->data), values_of(*pass.context, inputs[1]->data));
    draw(pass);
    return std::ssize(sample_);
  }

  void forward(Pass& pass, const Blobs&, const Blobs& outputs) override {
    std::array<std::vector<double>, 7> rows;
    for (std::size_t i = 0; i < outputs.size(); ++i)
      rows[i].assign(static_cast<std::size_t>(outputs[i]->shape.count()), 0);
    rows[6].resize(sample_.size());
    for (std::size_t i = 0; i < sample_.size(); ++i) write(i, rows);
    weigh(rows[1], rows[6]);
    for (std::size_t i = 0; i < outputs.size(); ++i) set_values(*pass.context, rows[i], outputs[i]->data);
  }

 private:
  struct Region {
    double image = 0;
    Box box;
  };
  struct TrueBox {
    Region region;
    std::int64_t label = 0;
    bool ignored = false;
  };
  struct Chosen {
    std::size_t region = 0;
    Match match;
    bool object = false;
  };

  const caffe::ProposalTargetParameter& settings() const { return parameter_.proposal_target_param(); }

  /// False for a row that cannot be used.
  bool is_usable(const char* what, std::int64_t number, const double* row) {
    const bool finite = std::all_of(row, row + 5, [](double x) { return std::isfinite(x); });
    const bool in_batch =
        finite && row[0] >= 0 && row[0] < settings().num_img_per_batch() && row[0] == std::floor(row[0]);
    // A region may be smaller than a pixel.
    if (in_batch && row[3] > row[1] - 1 && row[4] > row[2] - 1) return true;
    note(what, " ", number, " is image ", row[0], ", ", row[1], ", ", row[2], ", ", row[3], ", ", row[4],
         !finite    ? "; expected finite numbers"
         : in_batch ? "; it ends before it begins"
                    : cat("; num_img_per_batch is ", settings().num_img_per_batch()));
    return false;
  }

  void read(const Values& rois, const Values& boxes) {
    for (std::int64_t i = 0; i < rois.shape[0]; ++i) {
      const double* const row = rois.values.data() + 5 * i;
      if (is_usable("region", i, row)) regions_.push_back({row[0], {row[1], row[2], row[3], row[4]}});
    }
    for (std::int64_t i = 0; i < boxes.shape.count() / columns_; ++i) {
      const double* const row = boxes.values.data() + columns_ * i;
      if (row[0] == -1 || !(row[5] >= 1) || !is_usable("true box", i, row)) continue;
      if (row[5] >= settings().cls_num()) {
        note("a true box has the class ", row[5], "; there are ", settings().cls_num(),
             " classes, 0 (background) to ", settings().cls_num() - 1);
        continue;
      }
      truth_.push_back(
          {{row[0], {row[1], row[2], row[3], row[4]}}, static_cast<std::int64_t>(row[5]), row[6] != 0});
      if (settings().append_gtbox()) regions_.push_back(truth_.back().region);
    }
  }

  Match match_of(const Region& region) const {
    Match match;
    for (std::size_t j = 0; j < truth_.size(); ++j) {
      if (truth_[j].region.image != region.image) continue;
      const double shared = overlap(region.box, truth_[j].region.box, Corners::pixels);
      if (match.index < 0 || shared > match.overlap) match = {static_cast<int>(j), shared};
    }
    return match;
  }

  void draw(Pass& pass) {
    const auto& s = settings();
    std::vector<int> objects, background, others;
    std::vector<Match> matches;
    for (std::size_t i = 0; i < regions_.size(); ++i) {
      const Match& match = matches.emplace_back(match_of(regions_[i]));
      const auto shared = static_cast<float>(match.overlap);
      if (match.index >= 0 && shared >= s.fg_thr()) {
        if (!truth_[static_cast<std::size_t>(match.index)].ignored) objects.push_back(static_cast<int>(i));
      } else {
        (shared >= s.bg_thr_lw() && shared < s.bg_thr_hg() ? background : others)
            .push_back(static_cast<int>(i));
      }
    }
    const bool all = s.batch_size() < 0;
    const auto most_objects =
        all ? std::ssize(objects) : std::lround(part_of(s.batch_size(), s.fg_fraction()));
    const auto few = [&](std::vector<int>& from, std::int64_t count) {
      if (std::ssize(from) > count) from = drawn(from, count, drawing_key(pass), global_sample(pass, 0));
    };
    few(objects, most_objects);
    const std::int64_t rest = all ? std::ssize(background) : s.batch_size() - std::ssize(objects);
    few(background, rest);
    if (s.pickup_discard())
      for (std::size_t i = 0; i < others.size() && std::ssize(background) < rest; ++i)
        background.push_back(others[i]);
    for (const bool of_objects : {true, false})
      for (const int i : of_objects ? objects : background)
        sample_.push_back({static_cast<std::size_t>(i), matches[static_cast<std::size_t>(i)], of_objects});
    if (sample_.empty()) sample_.push_back({add_background(pass), {}, false});
  }

  /// A box that overlaps no object much, of one of the images that there are.
  std::size_t add_background(const Pass& pass) {
    constexpr double kLeastSide = 32;
    constexpr std::int64_t kTrials = 50,
                           kAfterRegions = std::int64_t{1} << 31;  // quads of the draws of regions
    const ops::RandomKey key = drawing_key(pass);
    Region region;
    for (std::int64_t trial = 1; trial <= kTrials; ++trial) {
      const ops::Philox4 numbers = ops::random_quad(key, global_sample(pass, 0), kAfterRegions + trial);
      const auto part = [&](int which, double of) {
        return std::floor(ops::uniform01(numbers.v[which]) * of);
      };
      if (!regions_.empty()) region.image = regions_[numbers.v[0] % regions_.size()].image;
      const double x = part(1, std::max(settings().img_width() - kLeastSide, 1.0)),
                   y = part(2, std::max(settings().img_height() - kLeastSide, 1.0)),
                   size = ops::uniform01(numbers.v[3]);
      const double width = std::max(std::floor(size * (settings().img_width() - x)), kLeastSide),
                   height = std::max(std::floor(size * (settings().img_height() - y)), kLeastSide);
      region.box = {x, y, x + width - 1, y + height - 1};
      if (static_cast<float>(match_of(region).overlap) < settings().fg_thr()) break;
    }
    regions_.push_back(region);
    return regions_.size() - 1;
  }

  void write(std::size_t i, std::array<std::vector<double>, 7>& rows) const {
    const Chosen& chosen = sample_[i];
    const Region& region = regions_[chosen.region];
    const double roi[] = {region.image, region.box.x1, region.box.y1, region.box.x2, region.box.y2};
    std::copy(std::begin(roi), std::end(roi), rows[0].begin() + static_cast<std::ptrdiff_t>(5 * i));
    rows[6][i] = 1;
    if (!chosen.object) return;
    const TrueBox& own = truth_[static_cast<std::size_t>(chosen.match.index)];
    const Box& box = own.region.box;
    const auto label = static_cast<double>(own.label);
    rows[1][i] = label;
    const double seen[] = {label, box.x1, box.y1, box.x2, box.y2, chosen.match.overlap};
    std::copy(std::begin(seen), std::end(seen), rows[5].begin() + static_cast<std::ptrdiff_t>(6 * i));
    if (settings().iou_weighted()) rows[6][i] = chosen.match.overlap;
    const auto shared = static_cast<float>(chosen.match.overlap);
    const double weight = shared >= settings().bbox_thr_lw() && shared <= settings().bbox_thr_hg() ? 1 : 0;
    const BoxShift shift = encoded(region.box, box, scale_);
    const std::int64_t slot = parameter_.bbox_reg_param().cls_aware() ? own.label : 1;
    for (std::size_t k = 0; k < 4; ++k) {
      const std::size_t at = (i * static_cast<std::size_t>(slots_) + static_cast<std::size_t>(slot)) * 4 + k;
      rows[2][at] = shift[k];
      rows[3][at] = rows[4][at] = weight;
    }
  }

  /// Objects weigh fg_fraction together, the background the rest; unless there are no objects.
  void weigh(const std::vector<double>& labels, std::vector<double>& weights) const {
    double of_objects = 0, of_background = 0;
    for (std::size_t i = 0; i < weights.size(); ++i)
      (labels[i] > 0 ? of_objects : of_background) += weights[i];
    if (of_objects == 0) return;
    const double rows = static_cast<double>(weights.size()), share = settings().fg_fraction();
    for (std::size_t i = 0; i < weights.size(); ++i)
      weights[i] *= labels[i] > 0 ? share * rows / of_objects : (1 - share) * rows / of_background;
  }

  ShiftScale scale_;
  std::int64_t slots_ = 2, columns_ = 7;
  // Of the pass.
  std::vector<Region> regions_;
  std::vector<TrueBox> truth_;
  std::vector<Chosen> sample_;
};

const RegisterLayer<BatchProposalTargetLayer> registered_batch_proposal_target(
    "BatchProposalTarget",
    {.about = "a sample of a batch's regions and its targets (MS-CNN, Cascade R-CNN)",
     .message = "proposal_target_param",
     .examples = {"cls_num: 4 batch_size: 3", "cls_num: 4 batch_size: -1 append_gtbox: false"},
     .inputs = {{5}, {8}},
     .further = {"bbox_reg_param"}});

}  // namespace
}  // namespace banyan
