#include "banyan/parallel/links.hpp"

#include <gtest/gtest.h>

namespace banyan::parallel {
namespace {

// Recorded paths. A switch appears as its upstream port (17:00.0) and a downstream port per card.
const std::string kRoot = "/sys/devices/pci0000:16/0000:16:01.0/";
const std::string kSwitch = kRoot + "0000:17:00.0/";

TEST(PciLink, CardsBehindOneSwitch) {
  EXPECT_EQ(pci_link(kSwitch + "0000:18:00.0/0000:19:00.0", kSwitch + "0000:18:01.0/0000:1a:00.0"),
            LinkClass::pix);
}

TEST(PciLink, TwoFunctionsOfABoardOnOneBus) {
  EXPECT_EQ(pci_link(kSwitch + "0000:18:00.0", kSwitch + "0000:18:01.0"), LinkClass::pix);
}

TEST(PciLink, CascadedSwitches) {
  const std::string inner = kSwitch + "0000:18:10.0/0000:1b:00.0/";
  EXPECT_EQ(pci_link(kSwitch + "0000:18:00.0/0000:19:00.0", inner + "0000:1c:00.0/0000:1d:00.0"),
            LinkClass::pxb);
  EXPECT_EQ(pci_link(inner + "0000:1c:00.0/0000:1d:00.0", inner + "0000:1c:01.0/0000:1e:00.0"),
            LinkClass::pix);
}

TEST(PciLink, OneHostBridge) {
  EXPECT_EQ(pci_link(kRoot + "0000:17:00.0", "/sys/devices/pci0000:16/0000:16:03.0/0000:20:00.0"),
            LinkClass::phb);
  EXPECT_EQ(pci_link("/sys/devices/pci0000:00/0000:00:05.0", "/sys/devices/pci0000:00/0000:00:06.0"),
            LinkClass::phb);  // as cards appear in virtual machines
}

TEST(PciLink, AcrossHostBridges) {
  EXPECT_EQ(pci_link(kSwitch + "0000:18:00.0", "/sys/devices/pci0000:ae/0000:ae:00.0/0000:af:00.0"),
            LinkClass::sys);
}

TEST(PciLink, OneCard) { EXPECT_EQ(pci_link(kSwitch, kSwitch), LinkClass::memory); }

TEST(Links, BusIdsAreWrittenAsSysfsWritesThem) {
  EXPECT_EQ(sysfs_bus_id("0000:3B:00.0"), "0000:3b:00.0");
  EXPECT_EQ(sysfs_bus_id("00000000:3B:00.0"), "0000:3b:00.0");
  EXPECT_EQ(sysfs_bus_id("00010000:3B:00.0"), "00010000:3b:00.0");  // a domain of more than 16 bits
}

TEST(Links, CountsNvLinksToTheOtherGpuOnly) {
  const NvLinks first{"a", {"b", "b", "c"}, 0}, second{"b", {"a", "a", "d"}, 0}, third{"c", {"a"}, 0};
  EXPECT_EQ(nvlinks_between(first, second), 2);
  EXPECT_EQ(nvlinks_between(first, third), 1);
  EXPECT_EQ(nvlinks_between(second, third), 0);
}

TEST(Links, CountsNvLinksThroughSwitches) {
  EXPECT_EQ(nvlinks_between({"a", {}, 18}, {"b", {}, 18}), 18);
  EXPECT_EQ(nvlinks_between({"a", {}, 18}, {"b", {}, 0}), 0);
}

TEST(Links, ClassesOfNvLinks) {
  EXPECT_EQ(nvlink_class(0), LinkClass::none);
  EXPECT_EQ(nvlink_class(1), LinkClass::nvlink1);
  EXPECT_EQ(nvlink_class(3), LinkClass::nvlink2);
  EXPECT_EQ(nvlink_class(18), LinkClass::nvlink4);
}

TEST(Links, VirtualDevicesShareMemory) {
  const auto first = make_cpu_device(0), second = make_cpu_device(1);
  EXPECT_EQ(discover_links({first.get(), second.get()}).at(0, 1), LinkClass::memory);
}

}  // namespace
}  // namespace banyan::parallel
