#include "mvm/build/flake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mvm/base/error.h"

namespace mvm::build {

TEST(FlakeReference, IsAFolderOrSomethingThatNixFetches) {
  EXPECT_EQ(parse_flake("."), (FlakeRef{".", "", "", ""}));
  EXPECT_EQ(parse_flake(".#web"), (FlakeRef{".", "", "", "web"}));
  EXPECT_EQ(parse_flake("#web"), (FlakeRef{".", "", "", "web"}));
  EXPECT_EQ(parse_flake("./a b?dir=sub/guest#x.y"), (FlakeRef{"./a b", "sub/guest", "", "x.y"}));
  EXPECT_EQ(parse_flake(".?submodules=1#x"), (FlakeRef{".", "", "", "x", true}));
  EXPECT_EQ(parse_flake("?dir=a&submodules=1"), (FlakeRef{".", "a", "", "", true}));
  EXPECT_EQ(parse_flake("path:/srv/x"), (FlakeRef{"/srv/x", "", "", ""}));
  EXPECT_EQ(parse_flake("./odd:name"), (FlakeRef{"./odd:name", "", "", ""}));
  EXPECT_EQ(parse_flake("github:owner/repo?dir=nix#web"),
            (FlakeRef{"", "", "github:owner/repo?dir=nix", "web"}));
  EXPECT_EQ(parse_flake("git+https://example.org/x"),
            (FlakeRef{"", "", "git+https://example.org/x", ""}));
}

TEST(FlakeReference, ThatMakesNoSenseIsRefused) {
  for (const char* text :
       {"", "nixpkgs:x", "git+file:///etc", "file:///etc", ".?dir=../up", ".?dir=/abs", ".?rev=1",
        ".?dir=a&rev=1", ".?dir=", ".?", ".?submodules=0", ".?submodules=1&", ".?dir=a&dir=b",
        ".#a b", ".#a;b", "a\nb", ".?dir=a//b", ".?dir=./a"})
    EXPECT_THROW(parse_flake(text), Error) << text;
  EXPECT_THROW(parse_flake(std::string(kMaxReference + 1, 'a')), Error);
  EXPECT_THROW(parse_flake(".#" + std::string(257, 'a')), Error);
}

TEST(FlakeReference, IsPinnedByARevisionOrAHash) {
  const std::string revision(40, 'a');
  EXPECT_TRUE(is_pinned(parse_flake("github:owner/repo/" + revision)));
  EXPECT_TRUE(is_pinned(parse_flake("github:owner/repo/" + revision + "?dir=x#y")));
  EXPECT_TRUE(is_pinned(parse_flake("git+https://example.org/x?ref=main&rev=" + revision)));
  EXPECT_TRUE(is_pinned(parse_flake("https://example.org/x.tar.gz?narHash=sha256-x")));
  EXPECT_FALSE(is_pinned(parse_flake("github:owner/repo")));
  EXPECT_FALSE(is_pinned(parse_flake("github:owner/repo/main")));
  EXPECT_FALSE(is_pinned(parse_flake("git+https://example.org/x?rev=" + revision + "a")));
}

}
