#include "banyan/base/text.hpp"

#include <gtest/gtest.h>

#include <iomanip>
#include <string>
#include <utility>

namespace banyan {
namespace {

TEST(EditDistance, CountsInsertionsDeletionsReplacementsAndSwaps) {
  EXPECT_EQ(edit_distance("pooling", "pooling"), 0u);
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("kernel", "kernl"), 1u);
  EXPECT_EQ(edit_distance("kernle", "kernel"), 1u);  // a swap of neighbours
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

TEST(EditDistance, IgnoresCaseAndKindOfDash) {
  EXPECT_EQ(edit_distance("syncbn", "SyncBN"), 0u);
  EXPECT_EQ(edit_distance("sync-bn", "sync_bn"), 0u);
}

TEST(NearestName, OrdersByDistanceThenByName) {
  const std::vector<std::string> found = nearest_first("relu", {"Convolution", "ELU", "PReLU", "ReLU"});
  EXPECT_EQ(found.front(), "ReLU");
  EXPECT_EQ(found.back(), "Convolution");
  EXPECT_EQ(nearest_first("x", {"b", "a"}), (std::vector<std::string>{"a", "b"}));
}

TEST(NearestName, GivesNothingWhenNothingIsNear) {
  EXPECT_EQ(nearest_name("Convolutoin", {"Pooling", "Convolution"}), "Convolution");
  EXPECT_EQ(nearest_name("Transformer", {"Pooling", "ReLU"}), "");
  EXPECT_EQ(nearest_name("a", {"b"}), "");
  EXPECT_EQ(nearest_name("a", {}), "");
  EXPECT_EQ(nearest_name(std::string(1 << 20, 'x'), {"Pooling"}), "");
}

TEST(NearestName, KnowsTypos) {
  const std::vector<std::string> types = {
      "BatchNorm", "Convolution", "Data",         "Dropout",     "ELU",          "EuclideanLoss",
      "Flatten",   "ImageData",   "InnerProduct", "L1Loss",      "PReLU",        "PSROIPooling",
      "Pooling",   "ReLU",        "ROIPooling",   "SegAccuracy", "SmoothL1Loss", "SoftmaxWithLoss",
      "SyncBN",    "TanH",        "Upsample"};
  for (const auto& [typo, meant] :
       std::vector<std::pair<const char*, const char*>>{{"Convolutoin", "Convolution"},
                                                        {"Convultion", "Convolution"},
                                                        {"onvolution", "Convolution"},
                                                        {"InnerProdct", "InnerProduct"},
                                                        {"Inner_Product", "InnerProduct"},
                                                        {"innerproduct", "InnerProduct"},
                                                        {"Inerproduct", "InnerProduct"},
                                                        {"EucledianLoss", "EuclideanLoss"},
                                                        {"Bacthnorm", "BatchNorm"},
                                                        {"Relu", "ReLU"},
                                                        {"Tanh", "TanH"},
                                                        {"SynchBN", "SyncBN"},
                                                        {"Flaten", "Flatten"},
                                                        {"Poling", "Pooling"},
                                                        {"SmothL1Loss", "SmoothL1Loss"},
                                                        {"SoftmaxwithLos", "SoftmaxWithLoss"}})
    EXPECT_EQ(nearest_name(typo, types), meant) << typo;
  const std::vector<std::string> fields = {"base_lr",    "kernel_size", "lr_mult",     "name",
                                           "num_output", "pad_h",       "weight_decay"};
  for (const auto& [typo, meant] :
       std::vector<std::pair<const char*, const char*>>{{"num_ouput", "num_output"},
                                                        {"numoutput", "num_output"},
                                                        {"base_lrs", "base_lr"},
                                                        {"nmae", "name"},
                                                        {"anme", "name"},
                                                        {"kernal_size", "kernel_size"},
                                                        {"wieght_decay", "weight_decay"}})
    EXPECT_EQ(nearest_name(typo, fields), meant) << typo;
}

TEST(NearestName, AnotherWordIsNoTypo) {
  const std::vector<std::string> types = {"CenterLoss", "Data",       "ELU",          "InnerProduct",
                                          "L1Loss",     "MemoryData", "MultiBoxLoss", "PSROIPooling",
                                          "PReLU",      "Pooling",    "SegAccuracy",  "Upsample"};
  for (const char* other :
       {"CtcLoss", "DocData", "Depooling", "Downsample", "JSDLoss", "KernelLoss", "L2Loss", "LReLU",
        "MMDLoss", "MaskPooling", "MultiROIPooling", "OuterProduct", "RBMInnerProduct", "RemoteData", "SELU",
        "SequenceAccuracy", "Tiling", "MultiLoss"})
    EXPECT_EQ(nearest_name(other, types), "") << other;
  const std::vector<std::string> fields = {"crop_w",     "decay_mult",  "is_color",  "lrn_param",
                                           "num_output", "solver_type", "rms_decay", "weight_decay"};
  for (const char* other : {"breadth_decay", "crop_h", "decay_proto", "force_decay", "force_type", "is_flow",
                            "num_input", "prune_param"})
    EXPECT_EQ(nearest_name(other, fields), "") << other;
  EXPECT_EQ(nearest_name("triangular", {"inv", "plateau"}), "");
}

/// Of a few values one is meant; among the types of layers one of three letters is near almost any other.
TEST(NearestName, OfThreeLettersAmongManyNamesIsNoTypo) {
  std::vector<std::string> names = {"AVE", "BN", "Data", "Exp", "Log", "LRN", "MIL"};
  EXPECT_EQ(nearest_name("AVG", names), "AVE");
  for (int i = 0; i < 30; ++i) names.push_back("Other" + std::string(static_cast<std::size_t>(i), 'x'));
  for (const char* other : {"AVG", "Bin", "Lag", "Min", "Mul"})
    EXPECT_EQ(nearest_name(other, names), "") << other;
  EXPECT_EQ(nearest_name("Lrn", names), "LRN");
  EXPECT_EQ(nearest_name("Epx", names), "Exp");
  EXPECT_EQ(nearest_name("Dta", names), "Data");
}

TEST(NearestName, MakesAPhrase) {
  EXPECT_EQ(did_you_mean("pad_heigth", {"pad_height", "stride"}), " (did you mean \"pad_height\"?)");
  EXPECT_EQ(did_you_mean("zzz", {"pad_height"}), "");
}

TEST(Quoted, EscapesAndCuts) {
  EXPECT_EQ(quoted("conv1"), "\"conv1\"");
  EXPECT_EQ(quoted("a\nb\"c\\"), "\"a\\x0ab\\\"c\\\\\"");
  EXPECT_EQ(quoted("abcdef", 3), "\"abc...\"");
}

TEST(Quoted, IsTakenForStringsAlsoWhereStdQuotedIsKnown) {
  std::string text = "a\nb";
  EXPECT_EQ(quoted(text), "\"a\\x0ab\"");
  EXPECT_EQ(quoted(std::as_const(text)), "\"a\\x0ab\"");
}

TEST(JsonString, EscapesWhatJsonForbids) {
  EXPECT_EQ(json_string("conv1 \xc3\xa4"), "\"conv1 \xc3\xa4\"");
  EXPECT_EQ(json_string("a\nb\"c\\"), "\"a\\u000ab\\\"c\\\\\"");
}

TEST(JsonString, BytesThatAreNotUtf8) {
  const std::string mark = "\\ufffd";
  const auto shown = [](const std::string& text) {
    return json_string(text).substr(1, json_string(text).size() - 2);
  };
  EXPECT_EQ(shown("M\xfcller"), "M" + mark + "ller");
  for (const char* whole :
       {"\xc2\x80", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"})
    EXPECT_EQ(shown(whole), whole);
  EXPECT_EQ(shown("\xc3"), mark) << "cut off";
  EXPECT_EQ(shown("\xe2\x82x"), mark + mark + "x");
  EXPECT_EQ(shown("\xc0\x80"), mark + mark) << "too long a form";
  EXPECT_EQ(shown("\xe0\x80\x80"), mark + mark + mark);
  EXPECT_EQ(shown("\xed\xa0\x80"), mark + mark + mark) << "half of a pair";
  EXPECT_EQ(shown("\xf4\x90\x80\x80"), mark + mark + mark + mark) << "beyond Unicode";
  EXPECT_EQ(shown(std::string("a\0b", 3)), "a\\u0000b");
}

TEST(Join, PutsSeparatorsBetween) {
  EXPECT_EQ(join({}, ", "), "");
  EXPECT_EQ(join({"a"}, ", "), "a");
  EXPECT_EQ(join({"a", "b", "b"}, ", "), "a, b, b");
  EXPECT_EQ(join({}, ", ", " and "), "");
  EXPECT_EQ(join({"a"}, ", ", " and "), "a");
  EXPECT_EQ(join({"a", "a"}, ", ", " and "), "a and a");
  EXPECT_EQ(join({"a", "b", "b"}, ", ", " and "), "a, b and b");
}

}  // namespace
}  // namespace banyan
