// Drawings of nets: what is in them, and that they are whole whatever the names are.
#include "banyan/draw/draw.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "banyan/base/contains.hpp"
#include "banyan/layers/layer.hpp"
#include "banyan/ops/processor.hpp"
#include "draw/graphviz.hpp"
#include "draw/picture.hpp"
#include "draw/scene.hpp"
#include "draw/svg.hpp"
#include "draw/text.hpp"
#include "draw/xml_check.hpp"
#include "net/net_test_tools.hpp"
#include "net/small_nets.hpp"

namespace banyan::draw {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

NetOptions shapes_only() {
  NetOptions options;
  options.shapes_only = true;
  return options;
}

class Draw : public testing::Test {
 protected:
  const Net& net(const std::string& text) {
    net_ = bench_.make(text, shapes_only());
    return *net_;
  }
  Picture picture(const std::string& text, bool plan = false) { return picture_of(net(text), {plan, {}}); }
  std::string svg(const std::string& text, bool plan = false) {
    return net_svg(net(text), {plan, DrawLayout::own, {}});
  }

  NetBench bench_;
  std::unique_ptr<Net> net_;
};

const Row* row_named(const Picture& picture, const std::string& name) {
  for (const Card& card : picture.cards)
    for (const Row& row : card.rows)
      if (row.name == name) return &row;
  return nullptr;
}
std::vector<std::string> names_of(const Card& card) {
  std::vector<std::string> names;
  for (const Row& row : card.rows) names.push_back(row.name);
  return names;
}
int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++count;
  return count;
}

std::string convolution(const std::string& name, const std::string& bottom, int outputs, int pad = 0) {
  return "layer { name: '" + name + "' type: 'Convolution' bottom: '" + bottom + "' top: '" + name +
         "' convolution_param { num_output: " + std::to_string(outputs) +
         " kernel_size: " + (pad > 0 ? "3 pad: 1" : "1") + " weight_filler { type: 'xavier' } } }";
}
std::string sync_bn(const std::string& name, const std::string& bottom, const std::string& more = "") {
  return "layer { name: '" + name + "' type: 'SyncBN' bottom: '" + bottom + "' top: '" + name +
         "' bn_param { slope_filler { value: 1 } " + more + " } }";
}
std::vector<Drawing> lay_out_all(const std::vector<Plot>& plots) {
  std::vector<Drawing> drawings;
  for (const Plot& plot : plots) drawings.push_back(lay_out(plot));
  return drawings;
}
/// A residual block: its sum and the ReLU after it run at the end of the batch normalization.
std::string residual_net() {
  return std::string("name: 'residual' ") + kSource + convolution("stem", "data", 4) +
         convolution("a", "stem", 4, 1) + sync_bn("bn", "a") +
         "layer { name: 'sum' type: 'Eltwise' bottom: 'stem' bottom: 'bn' top: 'sum' }"
         "layer { name: 'relu' type: 'ReLU' bottom: 'sum' top: 'sum' }" +
         inner_product("ip", "sum", "ip", 5) + softmax_loss("ip");
}

TEST(DrawKinds, EveryTypeOfLayerHasAColour) {
  for (const std::string& type : registered_layer_types())
    EXPECT_EQ(kind_of(type) == Kind::other, type == "Python") << type;
  EXPECT_EQ(kind_of("SomethingNew"), Kind::other);
}

TEST_F(Draw, LayersOfOneStepAreOneCard) {
  const Picture picture = this->picture(residual_net());
  std::vector<std::vector<std::string>> cards;
  for (const Card& card : picture.cards) cards.push_back(names_of(card));
  EXPECT_THAT(cards, ElementsAre(ElementsAre("in"), ElementsAre("stem"), ElementsAre("a"),
                                 ElementsAre("bn", "sum", "relu"), ElementsAre("ip"), ElementsAre("loss")));
  // The sum takes the shortcut from the side: it is not the first layer of its card.
  EXPECT_THAT(picture.connections, Contains(testing::AllOf(testing::Field(&Connection::card, 3),
                                                           testing::Field(&Connection::row, 1))));
  EXPECT_TRUE(picture.fused);
}

/// A test net whose depthwise convolution computes the 1 x 1 convolution before it, which reads a fork.
TEST_F(Draw, WhatALaterStepComputesIsOnItsCard) {
  if (ops::instruction_set() == ops::InstructionSet::baseline)
    GTEST_SKIP() << "needs kernels for AVX2 or AVX-512";
  NetOptions options = shapes_only();
  options.phase = Phase::test;
  options.parameters_stay = true;
  options.expansion_bytes = 1;
  const auto net = bench_.make(
      std::string("layer { name: 'in' type: 'Input' top: 'data' input_param { shape { dim: 1 dim: 3 dim: 6 "
                  "dim: 6 } } }") +
          convolution("stem", "data", 8, 1) + convolution("wide", "stem", 16) +
          "layer { name: 'relu' type: 'ReLU' bottom: 'wide' top: 'wide' }"
          "layer { name: 'deep' type: 'Convolution' bottom: 'wide' top: 'deep' convolution_param { "
          "num_output: 16 "
          "group: 16 kernel_size: 3 pad: 1 } }"
          "layer { name: 'clip' type: 'Clip' bottom: 'deep' top: 'deep' clip_param { min: 0 max: 6 } }" +
          convolution("narrow", "deep", 8) +
          "layer { name: 'sum' type: 'Eltwise' bottom: 'narrow' bottom: 'stem' top: 'sum' }",
      options);
  for (const bool plan : {false, true}) {
    const Picture picture = picture_of(*net, {plan, {}});
    std::vector<std::vector<std::string>> cards;
    for (const Card& card : picture.cards) cards.push_back(names_of(card));
    EXPECT_THAT(cards, ElementsAre(ElementsAre("in"), ElementsAre("stem"),
                                   ElementsAre("wide", "relu", "deep", "clip"), ElementsAre("narrow"),
                                   ElementsAre("sum")));
    EXPECT_FALSE(net_svg(*net, {plan, DrawLayout::own, {}}).empty());
  }
}

TEST_F(Draw, SplitsAreForks) {
  const Picture picture = this->picture(residual_net());
  EXPECT_EQ(row_named(picture, "stem_stem_0_split"), nullptr);
  EXPECT_EQ(std::count_if(picture.connections.begin(), picture.connections.end(),
                          [&](const Connection& c) { return picture.blobs[c.blob].name == "stem"; }),
            2);
}

TEST_F(Draw, MarksSharedMemoryWeightsAndGroups) {
  const Picture picture =
      this->picture(std::string(kSource) + convolution("a", "data", 4) + sync_bn("all", "a") +
                    sync_bn("pairs", "all", "sync_group_size: 2") +
                    "layer { name: 'flat' type: 'Flatten' bottom: 'pairs' top: 'flat' }"
                    "layer { name: 'drop' type: 'Dropout' bottom: 'flat' top: 'flat' }" +
                    inner_product("ip", "flat", "ip", 256, "param { name: 'w' } param { name: 'b' }") +
                    inner_product("twin", "ip", "twin", 256, "param { name: 'w' } param { name: 'b' }") +
                    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'twin' bottom: 'label' top: 'loss' "
                    "loss_weight: 0.5 }");
  EXPECT_THAT(row_named(picture, "a")->marks, IsEmpty());
  EXPECT_THAT(row_named(picture, "all")->marks, Contains("sync: all devices"));
  EXPECT_THAT(row_named(picture, "pairs")->marks, Contains("sync: groups of 2"));
  EXPECT_THAT(row_named(picture, "flat")->marks, ElementsAre("view"));
  EXPECT_THAT(row_named(picture, "drop")->marks, ElementsAre("in place"));
  EXPECT_THAT(row_named(picture, "twin")->marks, ElementsAre("shares ip"));
  EXPECT_THAT(row_named(picture, "loss")->marks, ElementsAre("\u00d7 0.5"));
  const std::string text = svg(std::string(kSource) + sync_bn("all", "data") +
                               inner_product("ip", "all", "ip", 5) + softmax_loss("ip"));
  EXPECT_THAT(text, HasSubstr(">sync: all devices</text>"));
  EXPECT_THAT(text, HasSubstr(">shares statistics with other devices</text>"));
}

/// A frozen normalization has none of its own, but runs that of the Scale after it.
TEST_F(Draw, NotesWhatHasNoBackwardPass) {
  for (const bool learning : {false, true}) {
    SCOPED_TRACE(learning);
    const std::string rate = learning ? "" : "param { lr_mult: 0 } ";
    const Picture picture = this->picture(
        std::string(kSource) +
        "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv' param { lr_mult: 0 } "
        "convolution_param { num_output: 4 kernel_size: 1 bias_term: false weight_filler { type: 'xavier' } "
        "} } "
        "layer { name: 'norm' type: 'BatchNorm' bottom: 'conv' top: 'norm' } "
        "layer { name: 'scale' type: 'Scale' bottom: 'norm' top: 'scale' " +
        rate + "} " + inner_product("ip", "scale", "ip", 5) + softmax_loss("ip"));
    const std::string note = "no backward pass";
    EXPECT_THAT(row_named(picture, "conv")->notes, Contains(note));
    for (const char* name : {"norm", "scale"})
      EXPECT_EQ(contains(row_named(picture, name)->notes, note), !learning) << name;
    EXPECT_THAT(row_named(picture, "ip")->notes, Not(Contains(note)));
  }
}

TEST_F(Draw, SettingsInAFewWords) {
  const Picture picture = this->picture(
      std::string(kSource) +
      "layer { name: 'c' type: 'Convolution' bottom: 'data' top: 'c' convolution_param { num_output: 6 "
      "kernel_h: 3 "
      "kernel_w: 1 stride: 2 pad_h: 1 pad_w: 0 group: 3 dilation: 2 weight_filler { type: 'xavier' } } }"
      "layer { name: 'p' type: 'Pooling' bottom: 'c' top: 'p' pooling_param { pool: AVE kernel_size: 2 "
      "stride: 2 } }"
      "layer { name: 'all' type: 'Pooling' bottom: 'p' top: 'all' pooling_param { global_pooling: true } }"
      "layer { name: 'l' type: 'LRN' bottom: 'all' top: 'l' lrn_param { local_size: 3 alpha: 0.5 } }" +
      "layer { name: 'n' type: 'Normalize' bottom: 'l' top: 'n' normalize_param { normalize_type: 'L2' } }" +
      inner_product("ip", "n", "ip", 5) + softmax_loss("ip"));
  EXPECT_EQ(row_named(picture, "c")->settings, "6, 3x1, stride 2, pad 1x0, dilation 2, group 3");
  EXPECT_EQ(row_named(picture, "p")->settings, "average 2x2, stride 2");
  EXPECT_EQ(row_named(picture, "all")->settings, "max of all");
  EXPECT_EQ(row_named(picture, "l")->settings, "local_size 3, alpha 0.5");
  EXPECT_EQ(row_named(picture, "n")->settings, "normalize_type \"L2\"");
  EXPECT_EQ(row_named(picture, "ip")->settings, "5");
}

TEST_F(Draw, ShapesAreOnTheWires) {
  const std::string text = svg(conv_net());
  EXPECT_EQ(xml_problem(text), "");
  for (const char* part : {">4\u00d74\u00d76\u00d76</text>", ">4\u00d74\u00d73\u00d73</text>",
                           ">4\u00d75</text>", ">scalar</text>", ">conv1</text>",
                           ">Convolution  4, 3x3</text>", ">+ relu1</text>", "prefers-color-scheme:dark"})
    EXPECT_THAT(text, HasSubstr(part));
  EXPECT_THAT(text, Not(HasSubstr("step 0")));
}

TEST_F(Draw, ThePlanShowsStepsPlacesAndCuts) {
  std::string chain = "checkpoint: '3' " + std::string(kSource);
  std::string last = "data";
  for (int i = 0; i < 5; ++i) {
    const std::string name = "c" + std::to_string(i);
    chain += convolution(name, last, 3, 1) + "layer { name: 's" + name + "' type: 'Sigmoid' bottom: '" +
             name + "' top: 's" + name + "' }";
    last = "s" + name;
  }
  chain += inner_product("ip", last, "ip", 5) + softmax_loss("ip");
  const Picture picture = this->picture(chain, true);
  const Plan& plan = net_->plan();
  ASSERT_EQ(plan.cuts.size(), 2u);
  EXPECT_THAT(picture.cuts, ElementsAre("cut: segment 2 of 3", "cut: segment 3 of 3"));
  // Each step that does something is on one card, and none is on two.
  std::vector<int> seen(plan.steps.size(), 0);
  for (const Card& card : picture.cards) {
    std::string digits;
    for (const char c : card.steps + " ")
      if (c >= '0' && c <= '9') {
        digits += c;
      } else if (!digits.empty()) {
        ++seen[std::stoul(digits)];
        digits.clear();
      }
  }
  for (std::size_t s = 0; s < seen.size(); ++s)
    EXPECT_EQ(seen[s], plan.steps[s].runs_layer || plan.steps[s].work == Work::convert ? 1 : 0) << s;
  const std::string text = net_svg(*net_, {true, DrawLayout::own, {}});
  EXPECT_EQ(xml_problem(text), "");
  EXPECT_EQ(count_of(text, "class=\"cut\""), 2);
  EXPECT_THAT(text, HasSubstr("back "));
  EXPECT_THAT(text, HasSubstr("again "));
  EXPECT_THAT(text, HasSubstr("B at "));
  // Cards of later segments are lower.
  const Scene scene = arrange(picture, lay_out_all);
  ASSERT_EQ(scene.cuts.size(), 2u);
  for (const PlacedCard& card : scene.cards)
    for (int cut = 0; cut < 2; ++cut)
      EXPECT_EQ(card.y > scene.cuts[cut].y, picture.cards[card.card].band > cut) << card.card;
}

/// Every name comes from a user's file.
TEST_F(Draw, NamesAreOnlyText) {
  const std::string evil = "</text><script>alert(1)</script>&amp;\\\"']]>\\x01\\xff\u00e9\u7f51";
  std::string safe_in_proto;
  for (const char c : evil) safe_in_proto += c == '\'' ? std::string("\\'") : std::string(1, c);
  const std::string text = "name: '" + safe_in_proto + "' " + kSource +
                           inner_product(safe_in_proto, "data", safe_in_proto, 5) +
                           softmax_loss(safe_in_proto);
  const std::string drawn = svg(text);
  EXPECT_EQ(xml_problem(drawn), "");
  EXPECT_THAT(drawn, Not(HasSubstr("<script>")));
  EXPECT_THAT(drawn, HasSubstr("&lt;script&gt;"));
  EXPECT_THAT(drawn, HasSubstr("\u00e9"));
  const std::string dot = net_dot(*net_, {});
  EXPECT_THAT(dot, Not(HasSubstr("\xff")));
  if (!have_graphviz()) GTEST_SKIP() << "Graphviz is not installed: its reading of the graph is not tested";
  EXPECT_EQ(xml_problem(net_svg(*net_, {false, DrawLayout::dot, {}})), "");
}

TEST(DrawText, OnlyWhatXmlAllowsRemains) {
  EXPECT_EQ(xml("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&#39;");
  EXPECT_EQ(xml(std::string("\x01\t\x7f", 3)), "\ufffd\ufffd\ufffd");
  EXPECT_EQ(xml("\xc3\xa9\xe7\xbd\x91\xf0\x9f\x98\x80"), "\u00e9\u7f51\U0001f600");
  // No UTF-8: a lone continuation, an overlong slash, a surrogate, a cut-off character.
  EXPECT_EQ(xml("\x80"), "\ufffd");
  EXPECT_THAT(xml("\xc0\xaf"), Not(HasSubstr("/")));
  EXPECT_THAT(xml("\xed\xa0\x80"), Not(HasSubstr("\xed\xa0\x80")));
  EXPECT_EQ(xml("a\xe7\xbd"), "a\ufffd\ufffd");
  EXPECT_EQ(shortened("abcdefghij", 6), "abc\u2026ij");
  EXPECT_EQ(shortened("abcdef", 6), "abcdef");
}

TEST_F(Draw, TallNetsHaveColumns) {
  std::string chain = kSource, last = "data";
  for (int i = 0; i < 40; ++i) {
    const std::string name = "c" + std::to_string(i);
    chain += convolution(name, last, 3);
    last = name;
  }
  chain += inner_product("ip", last, "ip", 5) + softmax_loss("ip");
  const std::string text = svg(chain);
  EXPECT_EQ(xml_problem(text), "");
  EXPECT_GE(count_of(text, "class=\"trunk\""), 1);
  EXPECT_EQ(count_of(text, "<g class=\"layer\">"), 43);
  // The label goes to the loss by name, not by a wire through all columns.
  EXPECT_EQ(count_of(text, "class=\"tag\""), 1);
}

/// Down and up again, with bridges: each level's last convolution is joined to the way up.
std::string u_net(const std::string& begin = "") {
  std::string text = begin + kSource, last = "data";
  std::vector<std::string> down;
  for (int level = 0; level < 4; ++level) {
    for (int k = 0; k < 5; ++k) {
      const std::string name = "d" + std::to_string(level) + std::to_string(k);
      text += convolution(name, last, 3);
      last = name;
    }
    down.push_back(last);
  }
  for (int level = 3; level >= 0; --level) {
    for (int k = 0; k < 4; ++k) {
      const std::string name = "u" + std::to_string(level) + std::to_string(k);
      text += convolution(name, last, 3);
      last = name;
    }
    const std::string join = "j" + std::to_string(level);
    text += "layer { name: '" + join + "' type: 'Concat' bottom: '" + last + "' bottom: '" + down[level] +
            "' top: '" + join + "' }";
    last = join;
  }
  return text + inner_product("ip", last, "ip", 5) + softmax_loss("ip");
}

TEST_F(Draw, ANetInTheFormOfAUIsFolded) {
  const Picture picture = this->picture(u_net());
  const Scene scene = arrange(picture, lay_out_all);
  const auto card_of = [&](const std::string& name) {
    for (const PlacedCard& card : scene.cards)
      if (picture.cards[card.card].rows[0].name == name) return card;
    ADD_FAILURE() << name;
    return PlacedCard();
  };
  EXPECT_LT(card_of("d00").y, card_of("d34").y);
  EXPECT_GT(card_of("u33").y, card_of("u03").y);
  EXPECT_GT(card_of("u33").x, card_of("d34").x + card_of("d34").width);
  EXPECT_EQ(
      std::count_if(scene.wires.begin(), scene.wires.end(), [](const Wire& wire) { return wire.sideways; }),
      4);
}

TEST_F(Draw, CutsOfAFoldedNet) {
  const Picture picture = this->picture(u_net("checkpoint: '4' "), true);
  const Scene scene = arrange(picture, lay_out_all);
  ASSERT_FALSE(scene.cuts.empty());
  for (const CutLine& cut : scene.cuts) {
    const int segment = std::stoi(cut.text.substr(cut.text.find("segment ") + 8)) - 1;
    const bool upwards = cut.x > scene.width / 3;
    for (const PlacedCard& card : scene.cards) {
      if (card.x < cut.x || card.x > cut.x + cut.width) continue;
      const bool after = upwards ? card.y < cut.y : card.y > cut.y;
      EXPECT_EQ(after, picture.cards[card.card].band >= segment) << cut.text << ", card " << card.card;
    }
  }
}

TEST_F(Draw, TheSamePictureEveryTime) {
  EXPECT_EQ(svg(residual_net(), true), svg(residual_net(), true));
  EXPECT_EQ(net_dot(net(residual_net()), {}), net_dot(net(residual_net()), {}));
}

TEST_F(Draw, GraphForGraphviz) {
  const std::string dot = net_dot(net(residual_net()), {});
  EXPECT_THAT(dot, HasSubstr("digraph \"residual\" {"));
  EXPECT_THAT(dot,
              HasSubstr("n3 [label=\"bn\\nSyncBN [sync: all devices]\\n+ sum Eltwise sum\\n+ relu ReLU\""));
  EXPECT_THAT(dot, HasSubstr("n2 -> n3 [label=\"4\u00d74\u00d78\u00d78\"]"));
}

TEST(DrawGraphviz, ReadsWhatDotPrints) {
  Plot plot;
  plot.boxes = {{72, 36, 0, 0}, {72, 36, 0, 0}};
  plot.arcs = {{0, 10, 1, false}};
  const std::string text =
      "graph 1 1 3\nnode n0 0.5 2.75 1 0.5 \"\" solid box black lightgrey\n"
      "node n1 0.5 0.25 1 0.5 \"\" solid box black lightgrey\n"
      "edge n0 n1 4 0.5 2.5 0.5 2 0.5 1 0.5 0.5 solid black";
  const Drawing drawing = read_plain(text, plot);
  EXPECT_DOUBLE_EQ(drawing.width, 72);
  EXPECT_DOUBLE_EQ(drawing.height, 216);
  EXPECT_DOUBLE_EQ(drawing.middles[0].y, 18);
  EXPECT_DOUBLE_EQ(drawing.middles[1].y, 198);
  EXPECT_DOUBLE_EQ(drawing.curves[0].front().x, 46);
  EXPECT_DOUBLE_EQ(drawing.curves[0].front().y, 36);
  EXPECT_DOUBLE_EQ(drawing.curves[0].back().y, 180);
  const auto refused = [&](const std::string& line) {
    try {
      read_plain(line, plot);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refused("graph 1 1 3\nnode n7 0.5 2.75 1 0.5"), HasSubstr("not understood: \"node n7"));
  EXPECT_THAT(refused("graph 1 1 3\nedge n0 n1 4 0.5"), HasSubstr("not understood"));
  EXPECT_THAT(refused("graph 1 1 3\n"), HasSubstr("left out"));
}

TEST(DrawGraphviz, PlacesWithBandsAndSides) {
  if (!have_graphviz()) GTEST_SKIP() << "Graphviz is not installed";
  Plot plot;
  plot.boxes = {{72, 36, 10, 0}, {72, 36, 10, 0}, {104, 36, 10, 1}, {72, 36, 0, 1}};
  plot.arcs = {{0, 0, 1, false}, {1, 0, 2, false}, {0, 0, 2, true}};
  plot.lines = 1;
  const std::vector<Drawing> drawings = lay_out_with_graphviz({plot, plot});
  ASSERT_EQ(drawings.size(), 2u);
  for (const Drawing& drawing : drawings) {
    ASSERT_EQ(drawing.band_ends.size(), 1u);
    EXPECT_LT(drawing.middles[1].y + 18, drawing.band_ends[0]);
    EXPECT_GT(drawing.middles[2].y - 18, drawing.band_ends[0]);
    EXPECT_GT(drawing.middles[3].y - 18, drawing.band_ends[0]);
    EXPECT_NEAR(std::abs(drawing.curves[2].back().x - drawing.middles[2].x), 52 - kSideMargin / 2, 1e-6);
  }
}

}  // namespace
}  // namespace banyan::draw
