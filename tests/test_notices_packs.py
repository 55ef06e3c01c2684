"""The language packs: the closed set in each, nothing said of an effect, and sound that is fit
to be played."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from handset import notices
from handset.audio.clips import unpack
from handset.audio.playout import Playout, PlayoutConfig
from handset.bench.speech import prompts
from handset.bench.speech.espeak import EspeakMissing, version
from handset.core.notices import PROMPTS, RULES, TONES, Notice, Part
from handset.errors import UsageError
from handset.notices import LANGUAGES, Sounds, pack, parse, read_sound
from handset.notices.words import allowed_phrases, fold, forbidden_in, forbidden_words

every_language = pytest.mark.parametrize("language", LANGUAGES)
every_prompt = pytest.mark.parametrize(
    ("language", "notice"), [(language, notice) for language in LANGUAGES for notice in PROMPTS]
)


@dataclass(frozen=True, slots=True)
class Fault:
    language: str
    notice: str
    what: str


def wrong_with(language: str, text: str) -> list[Fault]:
    """Everything that is wrong with a pack's texts."""
    try:
        read = parse(text, language)
    except UsageError as error:
        return [Fault(language, "", str(error))]
    return [
        Fault(language, notice, word)
        for notice, said in read.prompts.items()
        for word in forbidden_in(language, notice, said)
    ]


def shipped(language: str) -> str:
    return (files(notices) / f"{language}.toml").read_text(encoding="utf-8")


@every_language
def test_a_pack_is_the_closed_set_and_says_nothing_of_an_effect(language: str) -> None:
    assert wrong_with(language, shipped(language)) == []


@every_language
def test_its_texts_differ_and_are_sentences(language: str) -> None:
    texts = list(pack(language).prompts.values())

    assert len(set(map(fold, texts))) == len(PROMPTS)
    assert all((text[-1] in ".?" and text[0].isupper()) or text[0] == "¿" for text in texts)


# ---- a bad pack is found --------------------------------------------------------------------

CLAIMS = {
    "en": [
        "Nothing was sent.", "It is held.", "Cancelled.", "Canceled.", "Released.", "Done.",
        "Not released.", "It was not sent.", "The invoice is paid.", "Unpaid.", "It failed.",
        "Delivery failed.", "Sending.", "Your request was cancelled.", "Processing payment.",
        "Your message was delivered.", "Received.", "OK.", "Stopped.", "Undelivered.",
        "Confirmed.", "Approved.", "Your order is complete.", "Went through.", "Success.",
    ],
    "de": [
        "Nichts wurde gesendet.", "Angehalten.", "Storniert.", "Abgebrochen.", "Freigegeben.",
        "Nicht freigegeben.", "Erledigt.", "Fertig.", "Bezahlt.", "Die Zahlung ist überwiesen.",
        "Fehlgeschlagen.", "Es ist gescheitert.", "Ihre Nachricht ist aufgehoben.", "Gelöscht.",
        "Zugestellt.", "Empfangen.", "Okay.", "Übermittelt.", "Wird zurückgehalten.", "Bestätigt.",
        "Ausgeführt.", "Die Rechnung ist abgeschickt.", "Der Auftrag wurde ausgelöst und gebucht.",
    ],
    "fr": [
        "Rien n'a été envoyé.", "Retenu.", "Annulée.", "Libéré.", "C'est fait.", "Payée.",
        "Ce n'est pas réglé.", "Échec.", "L'envoi a échoué.", "Suspendu.", "Arrêté.", "Terminé.",
        "Reçu.", "Livré.", "Exécutée.", "Validé.", "Confirmé.", "Refusé.", "Transmis.", "D'accord.",
        "Le virement est effectué.", "Acquitté.", "Votre commande est partie.",
    ],
    "es": [
        "No se envió nada.", "Retenido.", "Cancelada.", "Anulado.", "Liberado.", "Hecho.",
        "Pagado.", "No está pagada.", "Falló.", "El envío ha fallado.", "Listo.", "Terminado.",
        "Recibido.", "Entregado.", "Ejecutada.", "Confirmado.", "Rechazado.", "Detenido.",
        "Transmitido.", "Enviando.", "La transferencia se realizó.", "Vale.", "Completado.",
    ],
}  # fmt: skip


def with_text(language: str, notice: Notice, text: str) -> str:
    line = re.compile(rf'^{notice} = ".*"$', re.MULTILINE)
    changed, n = line.subn(f"{notice} = {json.dumps(text, ensure_ascii=False)}", shipped(language))
    assert n == 1
    return changed


@pytest.mark.parametrize(
    ("language", "claim"),
    [(language, claim) for language in LANGUAGES for claim in CLAIMS[language]],
)
def test_a_pack_that_claims_an_effect_is_found(language: str, claim: str) -> None:
    for notice in (Notice.READY, Notice.KEPT, Notice.RECEIVED):
        found = wrong_with(language, with_text(language, notice, claim))
        assert {fault.notice for fault in found} == {notice}


@every_language
def test_each_forbidden_word_is_found_in_each_prompt(language: str) -> None:
    for word in forbidden_words(language):
        for planted in {word.replace("*", ""), word.replace("*", "xyz")}:
            assert planted == fold(planted), "the list is folded"
            for notice, text in pack(language).prompts.items():
                assert planted in forbidden_in(language, notice, f"{text} {planted.upper()}!")


@every_language
def test_what_is_allowed_is_needed_and_is_for_one_notice(language: str) -> None:
    phrases = allowed_phrases(language)

    assert {Notice.KEPT, Notice.RECEIVED} <= phrases.keys()
    for name, phrase in phrases.items():
        assert phrase in fold(pack(language).prompts[Notice(name)])
        assert forbidden_in(language, Notice.READY, phrase) != []
        assert forbidden_in(language, Notice(name), phrase) == []
        without_subject = phrase.split(" ", 1)[1]
        assert forbidden_in(language, Notice(name), without_subject) != [], "only whole"


@every_language
def test_a_pack_with_another_set_is_found(language: str) -> None:
    text = shipped(language)
    for bad in (text.replace("ready =", "redy ="), f'{text}sent = "x"\n', f'{text}deny = "x"\n'):
        assert len(wrong_with(language, bad)) == 1


def test_accents_and_case_hide_nothing() -> None:
    assert fold("ANNULÉ — heiß, Ñandú l'État") == "annule heiss nandu l etat"


# ---- sound ----------------------------------------------------------------------------------


def test_the_files_are_the_closed_set_in_every_language() -> None:
    folder = Path(notices.__file__).with_name("audio")
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}

    assert there == {f"{language}/{n}.opusp" for language in LANGUAGES for n in PROMPTS}
    assert sum(path.stat().st_size for path in folder.rglob("*.opusp")) < 400_000


@every_prompt
def test_a_prompt_was_made_from_its_text_and_can_be_played(language: str, notice: Notice) -> None:
    sound, text, made = read_sound(language, notice)
    said = sound.pcm().astype(np.float64) / 32_768

    assert text == pack(language).prompts[notice], "made again by handset.bench.speech.prompts"
    assert made["voice"] == pack(language).voice
    assert len(said) == sound.samples
    assert 0.3 < sound.samples / sound.rate < 4
    assert -8 < 20 * np.log10(np.abs(said).max()) < -4
    assert -30 < 10 * np.log10((said**2).mean()) < -12
    assert abs(said.mean()) < 1e-3
    for edge in (said[:80], said[-400:]):
        assert np.abs(edge).max() < 0.02, "begins and ends in silence"


@pytest.mark.parametrize("rate", [16_000, 44_100, 48_000])
def test_all_sounds_of_a_language_are_there_at_the_devices_rate(rate: int) -> None:
    sounds = Sounds("de", rate)

    for notice in Notice:
        for part in RULES[notice].parts:
            frames = sounds.frames(notice, part)
            assert frames.dtype == np.int16 and len(frames) < 4 * rate
    sound = read_sound("de", Notice.READY)[0]
    frames = sounds.frames(Notice.READY, Part.PROMPT)
    assert len(frames) == round(sound.samples * rate / sound.rate)
    only_tone = next(notice for notice in TONES if notice not in PROMPTS)
    with pytest.raises(KeyError):
        sounds.frames(only_tone, Part.PROMPT)


@pytest.mark.parametrize("rate", [16_000, 48_000])
def test_the_lane_takes_any_notice_whole_and_hands_it_on_unchanged(rate: int) -> None:
    sounds = Sounds("es", rate)
    longest = max((sounds.frames(n, Part.PROMPT) for n in PROMPTS), key=len)
    playout = Playout(PlayoutConfig(rate, seconds=1))
    try:
        assert playout.notice(longest) == len(longest)
        assert (playout.render(len(longest), 0, 0) == longest).all()
    finally:
        playout.close()


def test_a_language_that_does_not_ship_is_refused_with_those_that_do() -> None:
    with pytest.raises(UsageError, match=r"'nl'.*en, de, fr, es"):
        Sounds("nl", 48_000)


def test_making_the_prompts_again_gives_the_committed_ones() -> None:
    try:
        installed = version()
    except EspeakMissing as missing:
        pytest.skip(str(missing))
    sound, _, made = read_sound("fr", Notice.PAIRED)
    if installed != made["espeak_ng"]:
        pytest.skip(f"made with espeak-ng {made['espeak_ng']}, this is {installed}")

    again = prompts.make(["fr"])
    for notice in PROMPTS:
        header, packets = unpack(again["fr", notice])
        sound, text, made = read_sound("fr", notice)
        # The bytes depend on the encoder's version and on the processor; length and text do not.
        assert {**header.pop("made"), "libopus": made["libopus"]} == made
        assert header.pop("text") == text
        assert type(sound)(packets=packets, **header).samples == sound.samples


def test_a_text_with_a_forbidden_word_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    bad = parse(with_text("en", Notice.READY, "All done."), "en")
    monkeypatch.setattr(notices, "pack", lambda language: bad)

    with pytest.raises(ValueError, match=r"en\.toml, ready: 'All done\.' says all, done"):
        prompts.make(["en"])
