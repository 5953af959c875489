@pytest.mark.parametrize(
    ("releases", "found"),
    [
        (("4.8.1: 2018-03-09", "4.8.0: 2018-02-14"), 2),
        (("v1.2 (3 May 2019)", "v1.1 (March 2, 2019)"), 2),
        (("Version 2.0.1 - released on 2020/01/05:", "2.0"), 0),
        (("lamp (1.2-3) unstable; urgency=low", "lamp (1.2-2) unstable; urgency=medium"), 2),
        (("1.2.3", "1.2.2"), 0),
        (("On 2018-03-09 it rained.", "3.5 kg of flour on 2018-03-09"), 0),
    ],
)
def test_the_releases_of_a_list_of_changes_are_headings(releases: tuple[str, ...], found: int) -> None:
    text = "\n\n".join(f"{each}\n\t* Fix the lamp" for each in releases)
    assert [each.title for each in headings(text, "text/plain")] == list(releases)[:found]
