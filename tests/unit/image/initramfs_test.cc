#include "mvm/image/initramfs.h"

#include <map>

#include <sys/stat.h>

#include "scratch_store.h"

namespace mvm::image {
namespace {

struct Member {
  uint32_t mode = 0;
  std::string content;
  uint32_t device_major = 0;
  uint32_t device_minor = 0;
};

// Reads newc as the kernel does (init/initramfs.c): fields by position, 4-byte alignment.
std::map<std::string, Member> read_cpio(ByteView bytes) {
  const std::string_view text = as_text(bytes);
  std::map<std::string, Member> members;
  size_t at = 0;
  while (true) {
    EXPECT_EQ(text.substr(at, 6), "070701");
    EXPECT_EQ(at % 4, 0U);
    const auto field = [&](size_t n) {
      return static_cast<uint32_t>(
          std::stoul(std::string(text.substr(at + 6 + n * 8, 8)), nullptr, 16));
    };
    Member member{field(1), "", field(9), field(10)};
    const size_t size = field(6);
    const size_t name_size = field(11);
    const std::string name(text.substr(at + 110, name_size - 1));
    EXPECT_EQ(text[at + 110 + name_size - 1], '\0');
    const size_t start = (at + 110 + name_size + 3) / 4 * 4;
    member.content = text.substr(start, size);
    at = (start + size + 3) / 4 * 4;
    if (name == "TRAILER!!!") break;
    members[name] = member;
  }
  EXPECT_EQ(at, text.size());
  return members;
}

TEST(Initramfs, HoldsTheAgentTheConsoleAndTheModulesInOrder) {
  const std::string agent(12345, 'A');
  const std::vector<ModuleFile> modules{{"virtio_mmio.ko", as_bytes("one")},
                                        {"erofs.ko", as_bytes("three")}};
  const auto members = read_cpio(build_initramfs(as_bytes(agent), modules));
  EXPECT_EQ(members.at("init").content, agent);
  EXPECT_EQ(members.at("init").mode, S_IFREG | 0755U);
  EXPECT_EQ(members.at("dev/console").mode, S_IFCHR | 0600U);
  EXPECT_EQ(members.at("dev/console").device_major, 5U);
  EXPECT_EQ(members.at("dev/console").device_minor, 1U);
  EXPECT_EQ(members.at("lib/modules/erofs.ko").content, "three");
  EXPECT_EQ(members.at("modules.list").content,
            "/lib/modules/virtio_mmio.ko\n/lib/modules/erofs.ko\n");
  for (const char* directory : {"dev", "proc", "sys", "run"})
    EXPECT_EQ(members.at(directory).mode, S_IFDIR | 0755U) << directory;
}

TEST(Initramfs, IsTheSameEachTime) {
  EXPECT_EQ(build_initramfs(as_bytes("agent"), {}), build_initramfs(as_bytes("agent"), {}));
}

TEST(Initramfs, AModulesNameMustBePlain) {
  for (const char* name : {"", ".", "..", "a/b", "a\nb"}) {
    const std::vector<ModuleFile> modules{{name, {}}};
    EXPECT_EQ(error_of([&] { build_initramfs({}, modules); }).kind(), Kind::Invalid) << name;
  }
}

}
}
