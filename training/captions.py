"""Captions for the synthesiser's clips: what a person might type, about some of the clip's attributes.

A caption is grown from a small grammar: noun phrases for the scene (the colour attached to its subject),
phrases for time, weather and camera in several grammatical roles, and many ways to put them in a row. What
is not told is left out, so that the model learns each attribute alone. Words that would imply an attribute
that is not told are kept out of the tables, or are marked: a phrase that ends in "|clear" or "|day" is used
only where the weather is clear (a moon can't be seen through rain) or the time is day (a blue sky), though it
does not say so.

Tables named HELD_OUT_* and the held-out arrangements never meet training: they are for evaluation.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from training.attributes import ATTRIBUTES, SCENES, Attributes, allowed, sample_attributes

Phrases = dict[str, tuple[str, ...]]


def _p(text: str) -> tuple[str, ...]:
    """'a; b' over several lines -> ('a', 'b')."""
    return tuple(" ".join(phrase.split()) for phrase in text.split(";") if phrase.strip())


def _mirrored(phrases: tuple[str, ...]) -> tuple[str, ...]:
    """The same words about the other side, so that left and right differ in nothing else."""
    return tuple(phrase.replace("left", "right") for phrase in phrases)


# Noun phrases. '~' at the front: plural or mass, takes no 'a'. Articles and adjectives are grown before them.
SUBJECTS: Phrases = {
    "city street": _p(
        """city street; urban street; downtown street; city avenue; busy road in the city; street between
        tall buildings; street lined with skyscrapers; city boulevard; metropolis street; main street of a
        big city; street in the city centre; ~city traffic between high-rises; cyberpunk street; cyberpunk
        city; urban road with cars; downtown crossing; ~city blocks and traffic; cityscape with a street;
        ~tower blocks along a road; town street with shops; ~skyscrapers over a busy street; city lane;
        modern city with cars driving; Tokyo street; New York avenue; street with cars passing; ~streets
        of a metropolis; road through downtown; street scene in a city; urban scene; ~cars on a city road"""
    ),
    "ocean": _p(
        """ocean; open ocean; sea; wide open sea; ~ocean waves; ~waves on the sea; ~rolling waves; deep blue
        sea; ~endless ocean waters; seascape; ~sea waves up to the horizon; ~swells of the Atlantic; Pacific
        ocean; vast stretch of sea; expanse of ocean; ~waves rolling on the open sea; ocean surface; sea
        with waves; choppy sea; calm sea; gentle sea; rough ocean; ~waters of the ocean; ocean horizon; ~big
        waves; marine view; ~the high seas; empty sea; ~ocean swells; ~blue waters stretching to the
        horizon; ~open waters; sea as seen from a ship's deck; ~salty sea waves; ~foaming waves; ~foamy sea
        waves; ~wave crests; ~tall waves; ~waves at sea; ~waves with no land in sight; sea without land;
        ocean panorama; ocean view; sea view; view over the ocean; ~Atlantic waves; Mediterranean sea; North
        Sea; Indian Ocean; Atlantic Ocean; Baltic Sea; Caribbean Sea; ~tropical ocean waves; ~undulating
        sea; rippling sea; ~heaving seas; deep ocean; deep sea; big ocean; wild sea; rolling sea; rolling
        ocean; ~sea and sky; ~water all the way to the horizon; ~endless waves; ~endless sea; boundless
        ocean; ~the seven seas; ocean water with waves; ~surging waves; ~crests and troughs of the sea;
        ~saltwater waves; marine landscape; ~moving waves; surface of the sea; ~restless waves; ~waves,
        waves and more waves; empty ocean; immense sea; ~deep waters; ~ocean tides"""
    ),
    "mountains with a lake": _p(
        """~mountains with a lake; mountain lake; lake below mountains; alpine lake; ~mountains reflected in a
        lake; lake surrounded by mountains; lake at the foot of high peaks; ~rugged peaks above a lake;
        mountain range behind a lake; ~mountains and a lake; ~snow-capped mountains over a still lake;
        highland lake; ~Alps with a lake; lake in the Alps; lake between rocky summits; ~tall peaks mirrored
        in the water; mountain landscape with a lake; glacial lake under peaks; ~mountains; mountain range;
        ~peaks above a mirror lake; Swiss lake with mountains; lake in the mountains; ~rocky mountains beside
        calm water; ~summits reflected in still water; mountainside lake; fjord with mountains; lakeside view
        of the mountains; lake and mountains; ~mountains by a lake; ~mountains over a lake; lake with
        mountains in the background; ~mountains behind a calm lake; ~peaks and a lake; lake under high
        mountains; mountain scenery with a lake; mountain view across a lake; ~Rocky Mountains and a lake;
        quiet lake among mountains"""
    ),
    "forest": _p(
        """forest; woodland; ~woods; pine wood; ~trees in a forest; dense forest; deep woods; fir forest;
        ~tall trees; evergreen forest; conifer forest; spruce forest; ~pine trees; forest of tall trunks;
        wild forest; forest path; path through the woods; old-growth forest; ~tree trunks in the woods;
        forest clearing; ~rows of pines; taiga; forest glade; ~trees all around; wooded valley; thick
        forest; ~conifers; enchanted forest; forest interior; lush green forest; grove of trees"""
    ),
    "desert dunes": _p(
        """~desert dunes; ~sand dunes; desert; sandy desert; ~dunes in the desert; ~golden dunes; Sahara
        desert; ~rolling dunes of sand; sea of sand; ~waves of sand; desert landscape; ~endless sand
        dunes; ~hills of sand; arid desert; ~dunes; ~windswept dunes; dune field; ~desert sands; Arabian
        desert; Gobi desert; ~dunes of the Sahara; barren sandy land; ~ripples of sand on dunes; wide
        desert of dunes; ~big dunes; sandy wasteland; dry desert; ~camel-coloured dunes; ~curving dunes"""
    ),
    "planet in space": _p(
        """planet in space; planet; planet among the stars; alien planet; distant planet; planet in outer
        space; gas giant; planet seen from orbit; ~space with a planet; planet floating in space; alien
        world; exoplanet; world in deep space; giant planet; planet in the cosmos; planet hanging in the
        void; globe floating in space; spinning planet; planet turning in space; planet on a field of stars;
        science fiction planet; faraway world; celestial body; big planet with stars behind it; rotating
        globe in outer space; planet of another solar system; lonely planet; planet in the galaxy; unknown
        planet; ~outer space and a planet; planet from space; big round planet; huge planet; planet and
        stars; ~planet, stars and darkness; Saturn-like planet; Mars-like planet; spaceship's view of a
        planet; view of a planet from space; planet surrounded by stars"""
    ),
    "lighthouse on a coast": _p(
        """lighthouse on a coast; lighthouse; lighthouse by the sea; coastal lighthouse; lighthouse on a
        cliff; lighthouse on the rocks; beacon on the shore; lighthouse above the waves; striped
        lighthouse; tall lighthouse on the seashore; lighthouse on a headland; lighthouse at the ocean's
        edge; harbour lighthouse; seaside lighthouse; old lighthouse; lighthouse with a rotating beam;
        beacon tower by the sea; lighthouse tower; lighthouse on a rocky cape; lighthouse on an island;
        light tower on the coast; lonely lighthouse on the shoreline; lighthouse sweeping its lamp across
        the sea; coast with a lighthouse; rocky shore with a lighthouse; cliff with a lighthouse on it"""
    ),
    "hot-air balloon over fields": _p(
        """hot-air balloon over fields; hot air balloon; balloon over fields; hot-air balloon above farmland;
        hot air balloon floating over the countryside; balloon drifting above the fields; balloon in the
        sky over farms; hot-air balloon over green fields; balloon ride over the countryside; hot air
        balloon above a patchwork of fields; balloon flying over farm land; hot-air balloon; balloon with
        a basket over meadows; floating hot air balloon; hot air balloon rising over the valley; passenger
        balloon over crops; balloon over rural land; balloon above rolling farmland; balloon gliding over
        wheat fields; aerostat over the fields; hot air balloon in the air; big balloon carrying a basket;
        balloon sailing over the fields; countryside with a hot-air balloon above"""
    ),
    "sailing boat": _p(
        """sailing boat; sailboat; sail boat on the sea; sailing boat on the water; sailboat on the ocean; boat
        with a sail; sailing ship; sailing yacht; boat sailing on the sea; little sailboat; sailboat gliding
        over the waves; sailing dinghy; sloop at sea; boat under sail; sailboat crossing the bay; yacht
        under sail; sailing vessel on the waves; small sailing boat; boat heading out to sea; sailboat
        rocking on the waves; catboat; regatta boat; sailboat on a lake-like sea; single sailing boat on
        open water; sailing craft; old sailing boat; ketch; sailing boat in the wind; yacht; yacht on the
        water; yacht at sea; boat on the sea; boat on the water; boat on the ocean; little boat with a sail;
        sailboat at sea; sailboat on open water; sailboat drifting on the water; boat drifting at sea;
        wind-powered boat; ship with sails; ship under sail; tall ship; clipper; clipper ship; fishing boat
        with a sail; wooden sailing boat; ship sailing the sea; sailing vessel at sea; boat gliding on the
        water; boat in the bay; boat on the waves; boat riding the waves; ~mast and sail on the water;
        ~sails on the sea; boat with its sail raised; boat with its sails set; boat with a mast and a sail;
        dhow; felucca; keelboat; sailboat on the horizon; sailboat race; racing yacht; leisure boat under
        sail; toy sailboat; sailer on the sea; sailing trip on the sea; voyage of a sailboat; sailing boat
        bobbing on the water; boat rocking on the waves; sailboat floating on the sea; lone yacht at sea;
        vessel with a sail; vessel under sail"""
    ),
    "snowy village": _p(
        """snowy village; village in the snow; snow-covered village; winter village; small village under snow;
        ~houses with snowy roofs; ~cottages covered with snow; snowbound hamlet; alpine village in winter;
        ~snow-covered cottages; village with snow on the roofs; ~cosy snowy houses; Christmas village;
        mountain village in winter; ~little houses in the snow; snowy town; snowy hamlet; village blanketed in
        white; wintry village; ~snowy huts among fir trees; Nordic village in winter; ~log cabins in the snow;
        ~chalets with snow-laden roofs; frozen village; quiet village in deep winter; ~village homes with
        smoking chimneys in winter; winter wonderland with houses; snow-clad settlement; ~snow-covered houses;
        ~snowy cottages; ~wooden houses in the snow; village of snowy houses; snow-covered town; hamlet in the
        snow; small town in winter; winter town; winter hamlet; village in wintertime; village in winter;
        ~houses in winter; ~houses in the snow; ~roofs covered in snow; ~roofs white with snow; ~homes covered
        in snow; ~a cluster of snowy houses; ~rows of snowy cottages; Swiss village in winter; Scandinavian
        village in the snow; Russian village in winter; Austrian village under snow; countryside village under
        snow; ~winter cottages; ~snow-topped houses; ~cabins in the snow; ~snow-covered cabins; ~snowy roofs
        and chimneys; ~chimneys smoking over snowy roofs; little village in the snow; tiny village under snow;
        cosy winter village; cozy snowy village; old village covered with snow; white winter village; village
        with snowy roofs; ~cottages in the snow; ~houses under a thick coat of snow; ~lit windows in a snowy
        village; Christmas card village; holiday village in the snow; ~huts under snow; snow village;
        ~dwellings under snow; street of a snowy village; ~wintry houses"""
    ),
    "windmill in a meadow": _p(
        """windmill in a meadow; windmill; Dutch windmill; windmill on a green field; windmill with turning
        sails; windmill among flowers; traditional windmill; rustic windmill on the grass; windmill in the
        countryside; windmill on a hill; windmill in a flower meadow; mill with spinning blades; stone
        windmill; windmill in Holland; spinning windmill; old wind mill in a field; windmill in a grassy
        field; farm windmill; meadow with a windmill; windmill turning in the breeze; wooden windmill;
        wind mill; windmill rotating in a pasture; grain mill with sails; field of flowers with a
        windmill; grassland with an old mill"""
    ),
    "bouncing ball": _p(
        """bouncing ball; ball bouncing; ball that bounces; ball bouncing up and down; ball bouncing on the
        ground; rubber ball; ball hopping on the floor; toy ball bouncing; big ball bouncing; ball
        bouncing in a yard; ball jumping up and down; ball bouncing in place; beach ball bouncing; bouncy
        ball; round ball bouncing on a court; ball on the playground; ball dropping and bouncing; single
        bouncing ball; springy ball; shiny ball bouncing; ball rebounding from the ground; ball bouncing
        against the floor; rubber ball bouncing outdoors; ball falling and springing back; large bouncing
        ball; kids' ball bouncing"""
    ),
}
# {c}: the colour. It always stands beside the part that wears it.
COLOURED_SUBJECTS: Phrases = {
    "city street": _p(
        """city street with {c} neon signs; street lit by {c} neon; {c} neon city street; city street glowing
        with {c} neon lights; downtown street with {c} signs; urban street full of {c} neon; cyberpunk
        street in {c} neon; road with {c} neon reflections; ~{c} neon lights over a city street; ~{c} neon
        signs along the avenue; street with glowing {c} billboards; city avenue, neon in {c}; city with
        {c} signs; ~{c} lights reflected on the city road; busy street and its {c} neon; cyberpunk city
        glowing {c}; downtown with {c} neon tubes; ~skyscrapers and {c} neon; city street, {c} neon;
        metropolis street with {c} illuminated signs; street whose neon signs are {c}; ~{c} neon glow on a
        city street"""
    ),
    "planet in space": _p(
        """{c} planet; {c} planet in space; {c} alien planet; {c} gas giant; {c} world in outer space; planet
        coloured {c} in space; {c} planet among the stars; {c} globe in space; planet with {c} bands;
        {c}-coloured planet; planet with a {c} surface; distant {c} world; planet, {c}; {c} planet
        floating in space; planet that is {c}; {c} exoplanet; {c} celestial body; huge {c} planet; glowing
        {c} planet; alien world in {c}; planet in shades of {c}; rotating {c} globe"""
    ),
    "lighthouse on a coast": _p(
        """{c} lighthouse on a coast; {c} striped lighthouse; {c}-striped lighthouse; lighthouse with {c}
        stripes; lighthouse striped in {c}; lighthouse painted with {c} bands; {c} and white lighthouse;
        lighthouse with {c} bands by the sea; lighthouse with {c} rings; coastal lighthouse, {c} stripes;
        {c} banded lighthouse; lighthouse on the rocks with {c} stripes; tower with {c} stripes above the
        sea; lighthouse in {c}; {c} lighthouse; {c} lighthouse by the sea; lighthouse whose stripes are
        {c}; old {c} lighthouse; beacon with {c} stripes; lighthouse with wide {c} bands on a cliff"""
    ),
    "hot-air balloon over fields": _p(
        """{c} hot-air balloon; {c} hot air balloon over fields; {c} balloon over the fields; hot-air balloon
        in {c} above farmland; {c} balloon floating over the countryside; balloon coloured {c} over
        fields; hot air balloon with a {c} envelope; {c}-coloured hot air balloon; hot-air balloon, {c};
        {c} balloon in the sky; big {c} balloon above green fields; balloon that is {c} over farms; {c}
        hot-air balloon drifting over the fields; balloon of {c} cloth over the valley; {c} balloon with a
        basket; floating {c} balloon; countryside with a {c} hot-air balloon above; {c} passenger balloon"""
    ),
    "sailing boat": _p(
        """sailing boat with a {c} sail; sailboat with {c} sails; boat with a {c} sail; {c}-sailed boat; {c}
        sailboat; {c} sail on a small boat; yacht with {c} sails; sailing boat, {c} sail; sailing boat under
        {c} sail; ~{c} sails on a boat at sea; sailing ship with a {c} sail; boat whose sail is {c}; sailboat
        carrying a {c} sail; sloop with a {c} sail; boat hoisting a {c} sail; {c} sailing boat; dinghy with a
        {c} sail; sailboat with a big {c} mainsail; sailing yacht, sails in {c}; boat with {c} canvas; yacht
        with a {c} sail; {c} yacht; boat with {c} sails; ship with {c} sails; little boat with a {c} sail;
        sailboat whose sail is {c}; sailing boat, its sail {c}; vessel with a {c} sail; {c} sails on the sea;
        {c} sail on the water; sailboat, {c} sails; sailing boat with {c} sails; sailing vessel with a {c}
        sail"""
    ),
    "windmill in a meadow": _p(
        """windmill with a {c} roof; windmill with a {c} cap; {c}-roofed windmill; windmill in a meadow with
        a {c} roof; {c} roof on an old windmill; Dutch windmill with a {c} roof; windmill, {c} roof;
        windmill with {c} roofing in a field; mill whose roof is {c}; windmill topped by a {c} roof; {c}
        capped windmill; windmill with a roof in {c}; traditional windmill with a {c} top; windmill under
        a {c} roof; spinning windmill with a {c} roof; windmill with a pointed {c} roof; {c} windmill;
        windmill with a roof painted {c}"""
    ),
    "bouncing ball": _p(
        """{c} bouncing ball; bouncing {c} ball; {c} ball; {c} ball bouncing; ball coloured {c} bouncing; {c}
        ball bouncing on the ground; {c} rubber ball; ball bouncing, {c}; ball that is {c}, bouncing;
        {c}-coloured ball bouncing up and down; shiny {c} ball bouncing; big {c} ball; {c} ball hopping on
        the floor; ball in {c} that bounces; {c} ball jumping up and down; {c} toy ball bouncing; single
        {c} bouncing ball; {c} ball bouncing in a yard; glossy {c} ball bouncing; {c} bouncy ball"""
    ),
}
# Between pink and purple lies magenta: it is left out, as are teal and turquoise between green and blue.
COLOUR_WORDS: Phrases = {
    "red": _p("red; red; red; red; bright red; deep red; vivid red; crimson; scarlet; fire-engine red"),
    "orange": _p(
        "orange; orange; orange; orange; bright orange; vivid orange; tangerine; amber; deep orange"
    ),
    "yellow": _p(
        "yellow; yellow; yellow; yellow; bright yellow; golden yellow; lemon yellow; golden; canary yellow"
    ),
    "green": _p(
        "green; green; green; green; bright green; emerald; emerald green; lime green; vivid green; jade"
    ),
    "blue": _p(
        "blue; blue; blue; blue; bright blue; deep blue; cobalt; cobalt blue; azure; navy blue; sapphire"
    ),
    "purple": _p(
        "purple; purple; purple; purple; deep purple; vivid purple; violet; violet; lilac; amethyst"
    ),
    "pink": _p("pink; pink; pink; pink; bright pink; rose; rose pink; fuchsia; bubblegum pink; light pink"),
    "white": _p("white; white; white; white; bright white; pure white; ivory; pearl white; plain white"),
}

# -- time: before the noun; after it; as a keyword; as an opening; as a clause
TIME_ADJECTIVES: Phrases = {
    "day": _p(
        """daytime; daylight; sunlit|clear; midday; sun-drenched|clear; morning; noon; daylit;
        brightly lit; afternoon"""
    ),
    "sunset": _p(
        """sunset; dusk; twilight; sunset-lit; evening; golden-hour; dusk-lit; twilit; evening-lit;
        late-evening; sundown; setting-sun|clear"""
    ),
    "night": _p(
        "night-time; nighttime; nocturnal; moonlit|clear; midnight; night; starlit|clear; dark night-time"
    ),
}
TIME_PHRASES: Phrases = {
    "day": _p(
        """during the day; by day; in the daytime; in daylight; in broad daylight; in full daylight; at noon;
        at midday; in the morning; in the afternoon; in the middle of the day; on a bright day; by daylight;
        in bright daylight; in the early afternoon; on a spring day; under the daytime sky; in the light of
        day; with the sun high|clear; in morning light; in the late morning; with the sun overhead|clear; in
        plain daylight; in the bright light of day; late in the morning; on a summer day; at 12 o'clock; in
        sunlight|clear; in sunshine|clear; in strong daylight; while it is light; in the bright morning;
        under the midday sun|clear; in the middle of the afternoon; early in the morning light; on an
        ordinary day; in full day; under a bright daytime sky; on a sunlit day|clear; at daytime; under the
        noon sky; on a bright morning; on a bright afternoon"""
    ),
    "sunset": _p(
        """at sunset; at dusk; at sundown; in the evening glow; during sunset; at twilight; in the golden hour;
        during golden hour; as the sun sets; at the end of the day; under a burning sunset sky; against the
        setting sun|clear; under a sunset sky; in sunset light; at nightfall's edge with a glowing sky; in
        the warm light of the evening; in the last light of the day; with the sun going down; in the
        evening, sky aglow; by the light of the setting sun; at day's end; in the rosy evening light; as the
        sun sinks to the horizon; in the evening; in the evening light; at golden hour; as evening comes;
        when the sun goes down; as the day ends; in the fiery evening light; under a fiery evening sky;
        under a glowing evening sky; in low evening sun|clear; just before nightfall; just before dark; as
        the light fades; by evening light; at the end of a long day, sky glowing; in late-day light; under
        the evening sky; under a twilight sky; at the magic hour; in the gloaming; early in the evening;
        around sunset; around dusk; towards evening; towards sunset; near sundown; in the dusk; in dusk
        light; in twilight; in the afterglow; in the warm glow of sunset; in the warm light of sunset; with
        a glowing sunset; with the sun setting; with the setting sun behind|clear; as the sun is setting; as
        evening falls; when evening comes; beneath a sunset sky; in the last rays of the sun|clear; on a
        warm evening; at sun's setting; as twilight settles"""
    ),
    "night": _p(
        """at night; by night; at midnight; in the night; during the night; after dark; in the dark of night;
        under the moon|clear; under the night sky; late at night; in the middle of the night; in
        moonlight|clear; by moonlight|clear; on a dark night; under the stars|clear; beneath the moon|clear;
        in the dead of night; in darkness; long after sunset, at night; under a dark sky; in the small hours;
        under a starry sky|clear; in the nighttime; on a starry night|clear; after sundown, deep in the night;
        at night under the moon|clear; when it is dark; in full darkness; at dead of night; around midnight;
        through the night; lit by stars|clear; in the night air; by starlight|clear"""
    ),
}
TIME_TAGS: Phrases = {
    "day": _p(
        """day; daytime; daylight; noon; midday; morning; afternoon; day time; bright day; daylight scene;
        sunlight|clear; sunshine|clear; full daylight; bright daylight; late morning; in the day; by day; sun
        overhead|clear"""
    ),
    "sunset": _p(
        """sunset; dusk; golden hour; sundown; twilight; evening; setting sun; sunset sky; evening glow;
        evening light; evening sky; evening sun|clear; early evening; twilight sky; dusk light; magic hour;
        sunset light; sunset colors; sun setting; at sunset; at dusk; warm evening; sun going down; golden
        evening; late evening light; golden hour light; gloaming; afterglow"""
    ),
    "night": _p(
        """night; nighttime; midnight; at night; night time; dark night; moonlight|clear; night scene; night
        sky; late night; dark; darkness; after dark; in the night; starry night|clear; moonlit|clear; deep
        night"""
    ),
}
TIME_CLAUSES: Phrases = {
    "day": _p(
        """while the sun is up; lit by daylight; it is daytime; as noon passes; bathed in daylight; the sun
        shines|clear; the sun is high in the sky|clear; it is day; it is midday; it is noon; it is morning; it
        is a bright day; daylight everywhere; as the morning goes by; as the afternoon goes by; the day is
        bright; sunlight over everything|clear"""
    ),
    "sunset": _p(
        """while the sun sets; as dusk falls; bathed in golden-hour light; lit by the setting sun; glowing in
        the sunset; it is sunset; as daylight fades into a warm glow; as the sun goes down; as evening
        falls; while evening falls; the sun is setting; the sun goes down; the sun sinks; dusk is falling;
        it is dusk; it is evening; as the day ends; while the light fades; the evening sky glows; the sky
        glows with sunset; as twilight sets in; in the glow of the setting sun; the day is ending; the
        sunset lights up the sky; twilight settles in"""
    ),
    "night": _p(
        """while night covers everything; lit by the moon|clear; it is night; as midnight passes; wrapped in
        night; after nightfall; in the deep dark of night; when the night is at its darkest; it is dark; it is
        midnight; darkness all around; the night is dark; stars above|clear; the moon shines|clear; night has
        fallen; as the night goes on"""
    ),
}

# -- weather
WEATHER_ADJECTIVES: Phrases = {
    "clear": _p(
        """clear-skied; fair-weather; cloudless; clear-weather; cloud-free; fine-weather; blue-skied|day"""
    ),
    "rain": _p("rainy; rain-soaked; rain-swept; drenched; wet and rainy; rain-washed"),
    "snow": _p("snowed-upon; snowfall-veiled; snowstruck"),
    "fog": _p("foggy; misty; fog-bound; fog-shrouded; mist-covered; hazy; fog-wrapped; mist-wreathed"),
}
WEATHER_PHRASES: Phrases = {
    "clear": _p(
        """under a clear sky; in clear weather; under a cloudless sky; with clear skies; in fine weather; in
        clear air; under an open clear sky; with no clouds in the sky; in fair weather; with not a cloud
        above; with a clear sky; in good weather; with dry, clear weather; without a cloud; under clear
        skies; with perfect visibility; in dry weather; under fair skies; under a fair sky; with a cloudless
        sky above; under cloud-free skies; with cloud-free skies; without a cloud in the sky; with not a
        single cloud; in nice weather; in pleasant weather; in lovely weather; in beautiful weather; with
        good visibility; with excellent visibility; in clean, clear air; in crisp clear air; under skies
        free of clouds; under a wide clear sky; under a cloudless heaven; in perfect weather; with a
        perfectly clear sky; with completely clear skies; in calm, clear weather; with clear air; in bright,
        clear weather|day; under blue skies|day; with a blue sky|day; against a clear sky; against a blue
        sky|day; under a clear blue sky|day; with blue sky overhead|day; on a cloudless day|day; on a fine
        day|day; on a fair day|day"""
    ),
    "rain": _p(
        """in the rain; in heavy rain; under pouring rain; in a downpour; in rainy weather; in a rainstorm;
        during a shower; with rain falling; in steady rain; under rain clouds with rain coming down; in a rain
        shower; in drizzle; during a rainstorm; in wet, rainy weather; in the pouring rain; while it rains;
        while rain pours down; in a cloudburst; under a rainy sky; with raindrops falling; in wet weather; in
        a heavy shower; under rain; as rain comes down; in rain; with heavy rain; with a steady drizzle;
        through pouring rain; while rain falls"""
    ),
    "snow": _p(
        """in falling snow; while it snows; in heavy snowfall; during snowfall; in a snowstorm; with snow
        falling; with snowflakes drifting down; in a blizzard; as snow falls; under falling snowflakes; in a
        flurry of snow; in light snowfall; with snow coming down; while snowflakes fall; in snowy weather; in
        a snow shower; with thick flakes of snow in the air; during a winter snowfall;
        as it snows; in a light snowfall; with snowfall; with falling snow; with gentle snowfall; in a snow
        storm; under falling snow; with flakes of snow falling"""
    ),
    "fog": _p(
        """in fog; in thick fog; in the mist; in dense fog; shrouded in fog; in a misty haze; wrapped in mist;
        in foggy weather; hidden in fog; with fog all around; with low fog; under a blanket of fog; with
        mist hanging in the air; in heavy mist; veiled in mist; in hazy, foggy air; through fog; seen
        through mist; lost in fog; in drifting fog; in misty weather; in mist; with heavy fog; with thick
        mist; covered by fog; surrounded by fog; in a thick haze; under fog; with fog everywhere; as fog
        drifts past"""
    ),
}
WEATHER_TAGS: Phrases = {
    "clear": _p(
        """clear; clear sky; cloudless; clear weather; clear skies; no clouds; fine weather; fair weather;
        cloudless sky; fair; fair skies; fine; good weather; nice weather; dry weather; open sky;
        cloud-free; good visibility; no rain, clear; clear air; blue sky|day; blue skies|day; clear blue
        sky|day; cloudless day|day"""
    ),
    "rain": _p(
        """rain; heavy rain; raining; rainy; downpour; rainy weather; pouring rain; rainfall; wet weather;
        shower; drizzle; rainstorm; it is raining; falling rain; wet; raindrops"""
    ),
    "snow": _p(
        """snowing; snowfall; falling snow; snowstorm; snow falling; snowflakes; blizzard; heavy snowfall; it
        is snowing; snow; snow shower; falling snowflakes; snow flurries; light snow falling"""
    ),
    "fog": _p(
        """fog; foggy; mist; misty; thick fog; heavy fog; haze; dense fog; low fog; foggy weather; dense mist;
        foggy air; hazy; mist everywhere; fog everywhere; fog bank; misty weather"""
    ),
}
WEATHER_CLAUSES: Phrases = {
    "clear": _p(
        """the sky is clear; not a cloud in sight; the air is crisp and clear; there are no clouds; the weather
        is fine and clear; the sky completely clear; the sky is cloudless; the weather is fair; the weather
        is good; the weather is fine; it is dry and clear; without a single cloud above; the sky is wide and
        clear; the air is clear; the sky is empty of clouds; the sky is free of clouds; visibility is
        perfect; the sky is blue and clear|day; the sky is blue|day; the sun shines from a clear sky|day"""
    ),
    "rain": _p(
        """rain pouring down; rain is falling; rain streaks through the air; it is raining hard; raindrops
        everywhere; rain hammering down; it rains; a curtain of rain falls; rain splashing down"""
    ),
    "snow": _p(
        """snow is falling; snowflakes float down; it is snowing; flakes drifting through the air; snow falls
        softly; snowflakes dance in the wind; a snowstorm sweeps through; heavy snow keeps falling"""
    ),
    "fog": _p(
        """fog rolls in; mist drifts by; fog hides the distance; everything fades into fog; mist creeping in;
        thick fog covers everything; fog lies over the land; a veil of mist hangs over it; the air is
        thick with fog"""
    ),
}
TIME_NOUNS: Phrases = {
    "day": _p("""day; afternoon; morning; summer day"""),
    "sunset": _p("""evening at sunset; sunset; dusk; evening; twilight; sunset evening"""),
    "night": _p("night"),
}
WEATHER_OF_TIME: Phrases = {
    "clear": _p("clear; cloudless; fine; fair; cloud-free"),
    "rain": _p("rainy; wet, rainy"),
    "snow": _p("snowy; blizzardy"),
    "fog": _p("foggy; misty; hazy"),
}
# Both at once, for pairs that have words of their own.
TIME_AND_WEATHER: dict[tuple[str, str], tuple[str, ...]] = {
    ("day", "clear"): _p(
        """on a sunny day; in bright sunshine; in the sun; under a blue sky; sunny; in sunny weather; under a
        bright blue sky"""
    ),
    ("night", "clear"): _p(
        "on a clear starry night; under a clear sky full of stars; on a clear moonlit night"
    ),
    ("night", "rain"): _p(
        "on a rainy night; in the rain at night; on a wet night in the rain; at night, raining"
    ),
    ("night", "fog"): _p("on a foggy night; on a misty night; in fog after dark"),
    ("night", "snow"): _p("on a snowy night with flakes falling; while it snows at night"),
    ("sunset", "clear"): _p("at sunset under a clear sky; on a clear evening as the sun sets"),
    ("day", "rain"): _p("on a rainy day; on a wet, rainy afternoon"),
    ("day", "fog"): _p("on a foggy morning; on a misty day; on a hazy, foggy day"),
    ("day", "snow"): _p("on a day of falling snow; on a snowy day with flakes in the air"),
}

# -- camera
CAMERA_TAGS: Phrases = {
    "static": _p(
        """static; static shot; static camera; locked-off shot; steady camera; camera stands still; fixed
        camera; still camera; locked camera; tripod shot; no camera movement; stationary camera; camera does
        not move; fixed shot; steady tripod shot; unmoving camera; locked shot; camera fixed; still shot;
        static frame; no motion of the camera; fixed view; camera on a tripod; steady shot; motionless
        camera; camera holds still; without camera movement; fixed frame; static view; camera stays still"""
    ),
    "pan left": _p(
        """pan left; pan left; panning left; camera pans left; camera slides left; camera pan left; pan to the
        left; slow pan left; left pan; leftward pan; camera panning left; camera moves left; camera turning
        left; sweeping left; camera left; camera moving to the left; pan camera left; camera swings left;
        camera sweeps left; panning to the left; camera turns left; slowly panning left; camera rotates left;
        turn left; look left; camera tracks left"""
    ),
    "zoom in": _p(
        """zoom in; zoom in; zooming in; camera pushes forward; slow zoom in; camera zooms in; push in; slow
        push in; dolly in; camera pushing in; moving closer; camera moves forward; zoom-in; camera getting
        closer; forward camera motion; camera approaching; camera push in; camera zoom in; camera zooming
        in; moving in; moving forward; slowly zooming in; slowly zoom in; pushing in; push-in; dolly
        forward; track in; camera tracks in; camera moving closer; camera moving forward; getting nearer;
        closer and closer; fly in; flying in; camera flies in; move in"""
    ),
    "zoom out": _p(
        """zoom out; zoom out; zooming out; camera pulls back; slow zoom out; camera zooms out; pull back; slow
        pull back; dolly out; pull out; camera pulling away; camera moves backward; zoom-out; camera backing
        away; pull-back shot; backward camera motion; camera zoom out; camera zooming out; moving back;
        moving backward; moving backwards; moving away; slowly zooming out; slowly zoom out; pulling back;
        pulling out; pull away; pull-out; dolly back; track out; camera tracks back; camera moves away;
        camera moving away; camera moving back; camera pulls away; camera pulls out; camera retreats; camera
        retreating; retreat; getting farther away; farther and farther; fly out; flying out; camera flies
        backward; camera backs off; back away; move back; move away; view widens; wider and wider; zoom
        back; zooming back; camera draws back; step back; zoom out to a wider view"""
    ),
}
CAMERA_TAGS["pan right"] = _mirrored(CAMERA_TAGS["pan left"])
# After 'camera'/'the camera'/'our view'.
CAMERA_VERBS: Phrases = {
    "static": _p(
        """stays still; does not move; is fixed; remains static; holds still; stands still; rests on a tripod;
        is locked; keeps perfectly still; stays put; is static; is still; remains still; remains fixed; is
        steady; stays in place; stays fixed"""
    ),
    "pan left": _p(
        """pans left; pans to the left; turns left; moves left; sweeps left; swings to the left; slides to the
        left; glides left; drifts left; rotates to the left; looks to the left; tracks left; travels left;
        turns to the left; sweeps to the left; moves to the left; pivots left; swings left; slides left;
        rotates left; glides to the left"""
    ),
    "zoom in": _p(
        """zooms in; pushes in; moves closer; moves in; dollies in; comes closer; approaches; draws nearer;
        moves forward; zooms closer; creeps in; flies forward; goes in closer; travels forward; tightens in;
        gets closer; gets nearer; moves nearer; glides forward; flies in; slides forward; rolls forward;
        pushes forward; pushes closer; zooms into the scene; dollies forward; tracks in; floats closer;
        heads in"""
    ),
    "zoom out": _p(
        """zooms out; pulls back; pulls out; moves away; dollies out; backs away; draws back; moves backward;
        retreats; backs off; drifts away; goes further away; widens out; flies backwards; pulls away; gets
        farther away; moves back; moves out; glides backward; glides back; flies out; slides backward; rolls
        back; zooms back; zooms away; zooms out of the scene; dollies back; tracks back; tracks out; steps
        back; floats back; floats away; widens; widens its view; opens up to a wider view; backs up; goes
        back; pulls back to show more; retreats backward"""
    ),
}
CAMERA_VERBS["pan right"] = _mirrored(CAMERA_VERBS["pan left"])
# Before the scene.
CAMERA_LEADS: Phrases = {
    "static": _p(
        """a static shot of; a still shot of; a fixed shot of; a locked-down view of; a motionless camera on; a
        tripod shot of; static view of; fixed camera view of; stationary shot of; unmoving shot of; a steady
        shot of; a motionless shot of; a static view of; a fixed camera on; static camera on; a shot from a
        tripod of; a still view of"""
    ),
    "pan left": _p(
        """a pan left across; panning left over; a slow pan to the left across; a leftward pan over; camera
        panning left past; a sweep to the left over; turning left across; a left pan of; moving left along;
        panning to the left,; camera pans left across; camera panning left over; sweeping left across; pan
        left over; pan left across; slowly panning left over; swinging left across; a
        sideways move to the left along"""
    ),
    "zoom in": _p(
        """a zoom in on; zooming in on; a slow zoom into; a push in on; pushing in towards; moving closer to; a
        dolly in to; approaching; a slow approach to; flying towards; camera moving toward; closing in on;
        going in on; zoom in on; zoom into; a push-in on; pushing towards; moving in on; moving towards;
        moving toward; getting closer to; coming closer to; a dolly forward to; flying toward; gliding
        towards; slowly zooming in on; slowly approaching; camera zooms in on; camera zooming in on; camera
        pushes in on"""
    ),
    "zoom out": _p(
        """a zoom out from; zooming out from; a slow zoom out of; pulling back from; a pull back from; backing
        away from; a dolly out from; moving away from; a slow retreat from; pulling out from; drawing back
        from; flying away from; zoom out from; zoom out of; a pull-out from; a pull-back from; pulling away
        from; moving back from; moving backward from; moving out from; retreating from; getting farther away
        from; a dolly back from; flying backward from; gliding away from; gliding back from; slowly zooming
        out from; slowly pulling back from; slowly retreating from; camera zooms out from; camera zooming out
        from; camera pulls back from; camera pulling away from; camera retreats from; stepping back from"""
    ),
}
CAMERA_LEADS["pan right"] = _mirrored(CAMERA_LEADS["pan left"])
# Between the camera's name and the scene.
CAMERA_ACTS: Phrases = {
    "static": _p(
        """stays fixed on; is locked on; holds still on; stays still before; is fixed on; keeps still in front
        of; stands still before"""
    ),
    "pan left": _p(
        """pans left across; pans left over; sweeps left over; sweeps left across; turns left past; slides left
        along; moves left along; glides left past; swings left across; pans to the left over; tracks left
        along; drifts left past"""
    ),
    "zoom in": _p(
        """zooms in on; pushes in on; pushes in towards; moves closer to; gets closer to; glides towards;
        approaches; moves in on; moves forward to; dollies in to; flies towards; goes nearer to; tightens on;
        zooms into; comes nearer to; dives towards"""
    ),
    "zoom out": _p(
        """zooms out from; pulls back from; pulls away from; moves away from; backs away from; retreats from;
        draws back from; drifts away from; moves back from; dollies out from; flies away from; steps back
        from; pulls out from; glides away from; zooms out of; goes back from; dollies back from"""
    ),
}
CAMERA_ACTS["pan right"] = _mirrored(CAMERA_ACTS["pan left"])
CAMERA_NAMES = _p("the camera; camera; the view; our view; the shot; the frame; the camera; the lens")
CAMERA_ADVERBS = _p("slowly; gently; smoothly; gradually; quietly; softly")

ADJECTIVES = _p(
    """beautiful; lonely; quiet; peaceful; picturesque; stunning; charming; dreamy; majestic; scenic; lovely;
    pretty; magnificent; serene; small; large; tranquil; calm; gorgeous; remote; solitary; idyllic;
    wonderful; stylised; illustrated; breathtaking; silent; famous; simple; huge; tiny; ordinary; magical;
    graceful; timeless"""
)
ARTICLES = _p("a; a; a; a; the; the; one; this; some nice")
OPENERS = _p(
    """a video of; footage of; a shot of; a clip of; a view of; a scene with; an animation of; a film of; a
    picture of; video:; there is; we see; the video shows; a wide shot of; an illustration of; cinematic
    shot of; imagine; show me; a short film about; make a video of; scene:; aerial view of; a wide view
    of; a painting of"""
)
FILLERS = _p(
    """cinematic; 4k; highly detailed; cinematic, 4k, highly detailed; beautiful; vector illustration; flat
    design; high quality; masterpiece; 8k; trending; atmospheric; vivid; stylised animation; smooth
    motion; best quality; film look; professional; 24 fps; artstation; ultra detailed; award-winning;
    illustration style; photorealistic; wide shot; 35mm; minimalist; relaxing; loop; animated background;
    aesthetic"""
)

# == held out: never used in training
HELD_OUT_SUBJECTS: Phrases = {
    "city street": _p(
        """thoroughfare in town; ~taxis rolling between office towers; metropolitan boulevard with vehicles;
        inner-city road; ~high-rise canyons with traffic; street of a megacity; big-city intersection"""
    ),
    "ocean": _p(
        """briny deep; great expanse of salt water; ~breakers far from land; main with nothing but water;
        ~whitecaps on the open water; ~billows of the deep sea"""
    ),
    "mountains with a lake": _p(
        """tarn beneath jagged crags; ~steep cliffs and peaks around a mirror-like pond; ~massifs rising from
        a lakeshore; reservoir ringed by summits; ~granite peaks doubled by the lake; loch with mountains
        behind"""
    ),
    "forest": _p(
        """thicket of fir and pine; timberland; ~larches and spruces standing close; grove deep in the
        backwoods; ~wooded hills full of conifers; sylvan glade"""
    ),
    "desert dunes": _p(
        """~ergs of the Sahara; arid expanse of sand; ~sandhills shaped by the wind; ~heaps of desert sand;
        waterless land of sand ridges; Namib landscape"""
    ),
    "planet in space": _p(
        """heavenly sphere in the cosmos; orb adrift in the universe; extraterrestrial globe; world beyond
        our solar system; Jupiter-like body in interstellar space; sphere in the black of the universe"""
    ),
    "lighthouse on a coast": _p(
        """pharos on the cape; lantern tower guiding ships; seamark tower on a promontory; navigation light
        above the surf; keeper's tower at the water's edge; sentinel tower warning sailors"""
    ),
    "hot-air balloon over fields": _p(
        """Montgolfier above the pastures; aeronaut's balloon over cropland; wicker-basket balloon high over
        the farms; balloon flight above acres of crops; hot-air craft over the plain"""
    ),
    "sailing boat": _p(
        """schooner cutting through the water; skiff with its canvas up; sailing craft heeling in the breeze;
        cutter on the bay; catamaran under canvas; windjammer on the swell"""
    ),
    "snowy village": _p(
        """~rooftops buried in winter white; settlement deep in snow; ~farmhouses with white-capped roofs;
        snowed-in mountain community; ~gingerbread houses on a white hillside; Lapland township in winter"""
    ),
    "windmill in a meadow": _p(
        """gristmill with four vanes; mill whose vanes spin over grassland; post mill among wildflowers;
        old-fashioned wind-driven mill on a pasture; smock mill in the polder"""
    ),
    "bouncing ball": _p(
        """ball doing hops; ball thumping up and down on the pavement; playground sphere rebounding; ball
        that keeps rebounding; dribbling ball without a player; ball springing off the floor"""
    ),
}
HELD_OUT_COLOURED_SUBJECTS: Phrases = {
    "city street": _p(
        """thoroughfare bathed in {c} neon; ~{c} shop signs humming above the traffic; inner-city road where
        {c} tubes flicker; avenue under {c} neon lettering; megacity road splashed with {c} neon"""
    ),
    "planet in space": _p(
        """{c} sphere in the cosmos; {c} orb adrift in the universe; heavenly body tinted {c};
        extraterrestrial globe, {c} all over; {c} Jupiter-like giant"""
    ),
    "lighthouse on a coast": _p(
        """pharos ringed in {c}; seamark tower with {c} hoops; lantern tower banded {c} on the cape; tower at
        the water's edge, its stripes {c}; lighthouse wearing {c} belts"""
    ),
    "hot-air balloon over fields": _p(
        """{c} Montgolfier above the pastures; balloon with {c} fabric high over the farms; {c} aeronaut's
        balloon over cropland; wicker-basket balloon, its envelope {c}"""
    ),
    "sailing boat": _p(
        """schooner flying a {c} sail; skiff with {c} canvas up; cutter whose canvas is {c}; catamaran rigged
        with {c} sails; vessel driven by a {c} sail"""
    ),
    "windmill in a meadow": _p(
        """gristmill crowned by a {c} roof; post mill wearing a {c} cap; mill on a pasture, roof in {c};
        old-fashioned mill with {c} shingles on top; smock mill with a {c} hood"""
    ),
    "bouncing ball": _p(
        """{c} ball doing hops; {c} sphere rebounding on the pavement; {c} ball springing off the floor; ball
        of {c} rubber thumping up and down; {c} playground ball rebounding"""
    ),
}
HELD_OUT_COLOUR_WORDS: Phrases = {
    "red": _p("red; ruby red; cherry-red; blood-red"),
    "orange": _p("orange; pumpkin orange; carrot-orange; flame orange"),
    "yellow": _p("yellow; sunflower yellow; banana-yellow; lemon"),
    "green": _p("green; grass-green; kelly green; lime"),
    "blue": _p("blue; royal blue; ultramarine; cornflower blue"),
    "purple": _p("purple; grape-purple; plum purple; royal purple"),
    "pink": _p("pink; hot pink; rosy pink; candy pink"),
    "white": _p("white; chalk-white; milk-white; gleaming white"),
}
HELD_OUT_TIMES: Phrases = {
    "day": _p(
        """when it is broad day; at high noon; at lunchtime; in mid-morning; around three in the afternoon;
        daylight hours"""
    ),
    "sunset": _p(
        """with the sun low and the sky on fire; at eventide; at the close of day, sky ablaze; as the sun
        dips below the horizon; in dusky sunset tones"""
    ),
    "night": _p(
        """under cover of darkness; in the wee hours; past midnight; in pitch-black night; when everyone
        sleeps at night; at nighttime"""
    ),
}
HELD_OUT_WEATHERS: Phrases = {
    "clear": _p(
        """with spotless skies; in crystal-clear conditions; sky without clouds; with an unclouded sky; in
        settled, clear weather"""
    ),
    "rain": _p(
        """in torrential rain; amid rain showers; as it pours; with rain lashing down; soaked by a deluge;
        rain drumming"""
    ),
    "snow": _p(
        """amid swirling snowflakes; as flakes tumble from the sky; during a snow flurry; in a whiteout of
        falling snow; snow drifting down"""
    ),
    "fog": _p(
        """swallowed by mist; in pea-soup fog; with poor visibility from fog; under a shroud of mist; in a
        murky haze; fog-filled air"""
    ),
}
HELD_OUT_CAMERAS: Phrases = {
    "static": _p(
        """the camera never moves; from a mounted, immobile camera; without any camera motion; nailed-down
        framing; camera at rest on its stand"""
    ),
    "pan left": _p(
        """the shot travels leftwards; camera veering left; a gradual swivel to the left; viewpoint sliding
        toward the left; left-going pan"""
    ),
    "zoom in": _p(
        """the camera edges closer; viewpoint inching nearer; a creeping zoom inwards; camera advances toward
        the subject; dollying inward"""
    ),
    "zoom out": _p(
        """the camera edges back; viewpoint receding; a widening zoom outwards; camera withdraws from the
        subject; dollying outward"""
    ),
}
HELD_OUT_CAMERAS["pan right"] = _mirrored(HELD_OUT_CAMERAS["pan left"])
HELD_OUT_OPENERS = _p(
    "moving picture of; please render; a postcard come to life:; motion graphic of; once upon a time,; depict"
)
HELD_OUT_FILLERS = _p("crisp render; storybook mood; screensaver; ambient; flat colours; poster look")


@dataclass(frozen=True)
class _Parts:
    """One caption's pieces in the making. None: not mentioned."""

    rng: random.Random
    attributes: Attributes
    told: frozenset[str]

    def pick(self, phrases: Sequence[str]) -> str:
        true = {"": True, "clear": self.attributes.weather in (None, "clear")}
        true["day"] = self.attributes.time == "day"
        while True:
            phrase, _, condition = self.rng.choice(phrases).partition("|")
            if true[condition]:
                return phrase

    def say(self, attribute: str, table: Phrases) -> list[str]:
        """[a phrase], or [] when the attribute is not to be mentioned."""
        return [self.pick(table[getattr(self.attributes, attribute)])] if attribute in self.told else []

    def noun(
        self, *, adjectives: Sequence[str] = (), article: bool | None = None, held_out: bool = False
    ) -> str:
        """The scene as a noun phrase, its colour attached: '' when the scene is not mentioned."""
        if "scene" not in self.told:
            return ""
        scene, coloured = self.attributes.scene, "colour" in self.told
        if held_out:
            table = HELD_OUT_COLOURED_SUBJECTS if coloured else HELD_OUT_SUBJECTS
        else:
            table = COLOURED_SUBJECTS if coloured else SUBJECTS
        phrase = self.pick(table[scene])
        if coloured:
            words = HELD_OUT_COLOUR_WORDS if held_out else COLOUR_WORDS
            phrase = phrase.replace("{c}", self.pick(words[self.attributes.colour or ""]))
        plural, phrase = phrase.startswith("~"), phrase.removeprefix("~")
        if article is None:
            article = self.rng.random() < 0.75
        words_before = list(adjectives)
        if article and not plural and not phrase.startswith("the "):
            words_before.insert(0, self.rng.choice(ARTICLES[:5] if held_out else ARTICLES))
        return " ".join([*words_before, phrase])

    def rich_noun(self, *, with_time: bool = False, with_weather: bool = False) -> str:
        """The scene with adjectives that mean nothing, or that say the time or the weather."""
        adjectives = [self.pick(ADJECTIVES)] if self.rng.random() < 0.35 else []
        if with_weather:
            adjectives += self.say("weather", WEATHER_ADJECTIVES)
        if with_time:
            adjectives += self.say("time", TIME_ADJECTIVES)
        return self.noun(adjectives=adjectives)

    def camera_clause(self) -> list[str]:
        if "camera" not in self.told:
            return []
        name, verb = self.pick(CAMERA_NAMES), self.pick(CAMERA_VERBS[self.attributes.camera])
        roll = self.rng.random()
        if self.attributes.camera != "static" and roll < 0.3:
            return [f"{name} {self.pick(CAMERA_ADVERBS)} {verb}"]
        if self.attributes.camera != "static" and roll < 0.6:
            return [f"{name} {verb} {self.pick(CAMERA_ADVERBS)}"]
        return [f"{name} {verb}"]

    def camera_any(self) -> list[str]:
        return self.say("camera", CAMERA_TAGS) if self.rng.random() < 0.5 else self.camera_clause()

    def around(self) -> list[str]:
        """Time and weather as phrases after the noun, in either order, or as one phrase for both."""
        time, weather = self.say("time", TIME_PHRASES), self.say("weather", WEATHER_PHRASES)
        if time and weather:
            pair = (self.attributes.time or "", self.attributes.weather or "")
            if pair in TIME_AND_WEATHER and self.rng.random() < 0.3:
                return [self.pick(TIME_AND_WEATHER[pair])]
            if self.rng.random() < 0.2:
                noun, adjective = self.pick(TIME_NOUNS[pair[0]]), self.pick(WEATHER_OF_TIME[pair[1]])
                extra = [] if pair[1] != "snow" else [self.pick(WEATHER_CLAUSES["snow"])]
                return [f"on a {adjective} {noun}", *extra]
        both = time + weather
        if self.rng.random() < 0.5:
            both.reverse()
        return both

    def join(self, pieces: Sequence[str]) -> str:
        """Pieces with commas, blanks or 'and' between."""
        text = ""
        for piece in pieces:
            if not piece:
                continue
            text += (self.rng.choice((", ", ", ", " ")) if text else "") + piece
        return text

    def shuffled(self, pieces: list[str]) -> list[str]:
        self.rng.shuffle(pieces)
        return pieces


# Each arrangement gives the whole caption but for filler, case and full stop.
def _keywords(p: _Parts) -> str:
    rest = p.say("time", TIME_TAGS) + p.say("weather", WEATHER_TAGS) + p.say("camera", CAMERA_TAGS)
    pieces = [p.noun(article=p.rng.random() < 0.15), *p.shuffled(rest)]
    if p.rng.random() < 0.3:
        pieces = p.shuffled(pieces)
    return p.rng.choice((", ", ", ", ", ", " ", "; ", " - ", ". ", " | ")).join(x for x in pieces if x)


def _noun_then_phrases(p: _Parts) -> str:
    return p.join([p.rich_noun(), *p.around(), *p.camera_any()])


def _phrases_then_noun(p: _Parts) -> str:
    return ", ".join(x for x in [*p.around(), p.rich_noun(), *p.camera_any()] if x)


def _adjectives(p: _Parts) -> str:
    if p.rng.random() < 0.5:
        return p.join([p.rich_noun(with_time=True), *p.say("weather", WEATHER_PHRASES), *p.camera_any()])
    return p.join([p.rich_noun(with_weather=True), *p.say("time", TIME_PHRASES), *p.camera_any()])


def _camera_first(p: _Parts) -> str:
    lead, noun = p.say("camera", CAMERA_LEADS), p.rich_noun()
    if lead and noun:
        return p.join([f"{lead[0]} {noun}", *p.around()])
    return p.join([*p.say("camera", CAMERA_TAGS), noun, *p.around()])


def _camera_tag_first(p: _Parts) -> str:
    head = p.say("camera", CAMERA_TAGS)
    joint = p.rng.choice((": ", ", ", ". ", " - "))
    return joint.join(x for x in [*head, p.join([p.rich_noun(), *p.around()])] if x)


def _opened(p: _Parts) -> str:
    noun = p.rich_noun()
    return p.join([f"{p.pick(OPENERS)} {noun}" if noun else "", *p.around(), *p.camera_any()])


def _clauses(p: _Parts) -> str:
    pieces = p.shuffled(p.say("time", TIME_CLAUSES) + p.say("weather", WEATHER_CLAUSES) + p.camera_clause())
    return ", ".join(x for x in [p.rich_noun(), *pieces] if x)


def _mixed(p: _Parts) -> str:
    time = p.say("time", TIME_PHRASES if p.rng.random() < 0.5 else TIME_TAGS)
    weather = p.say("weather", WEATHER_CLAUSES if p.rng.random() < 0.6 else WEATHER_PHRASES)
    return ", ".join(x for x in p.shuffled([p.rich_noun(), *time, *weather, *p.camera_any()]) if x)


def _camera_acts(p: _Parts) -> str:
    act, noun = p.say("camera", CAMERA_ACTS), p.rich_noun()
    if not act:
        return p.join([noun, *p.around()])
    adverb = [p.pick(CAMERA_ADVERBS)] if p.attributes.camera != "static" and p.rng.random() < 0.3 else []
    scene = " ".join([p.pick(CAMERA_NAMES), *adverb, act[0], noun])
    clauses = [f"{p.rng.choice(('while', 'as', 'and'))} {x}" for x in p.say("weather", WEATHER_CLAUSES)]
    if p.rng.random() < 0.5:
        return p.join([scene, *p.around()])
    return ", ".join([scene, *p.say("time", TIME_PHRASES), *clauses])


def _sentences(p: _Parts) -> str:
    first = p.join([p.rich_noun(), *p.around()])
    return ". ".join(x for x in [first, *p.camera_clause()] if x) + "."


def _ornate(p: _Parts) -> str:
    noun = p.rich_noun()
    while_clause = [
        f"{p.rng.choice(('while', 'as', 'and', 'where'))} {x}" for x in p.say("weather", WEATHER_CLAUSES)
    ]
    tail = [*p.say("time", TIME_CLAUSES if p.rng.random() < 0.5 else TIME_PHRASES)]
    lead = p.say("camera", CAMERA_LEADS)
    head = (
        f"{lead[0]} {noun}"
        if lead and noun
        else ", ".join([*p.say("camera", CAMERA_TAGS), noun] if lead else [noun])
    )
    return ", ".join(
        x
        for x in ([head, *tail, *while_clause] if p.rng.random() < 0.5 else [head, *while_clause, *tail])
        if x
    )


def _labelled(p: _Parts) -> str:
    pieces = [f"{p.rng.choice(('scene', 'subject', 'place'))}: {x}" for x in [p.noun(article=False)] if x]
    pieces += [f"time: {x}" for x in p.say("time", TIME_TAGS)]
    pieces += [f"weather: {x}" for x in p.say("weather", WEATHER_TAGS)]
    pieces += [f"camera: {x}" for x in p.say("camera", CAMERA_TAGS)]
    return p.rng.choice((", ", "; ", ". ")).join(pieces)


def _with_the_camera(p: _Parts) -> str:
    clause = [f"{p.rng.choice(('while', 'as', 'and'))} {x}" for x in p.camera_clause()]
    return p.join([p.rich_noun(), *p.around(), *clause])


def _time_as_title(p: _Parts) -> str:
    head = p.shuffled(p.say("time", TIME_TAGS) + p.say("weather", WEATHER_TAGS))
    title = " ".join(head) if p.rng.random() < 0.4 else ", ".join(head)
    return p.rng.choice((": ", ". ", ", ", " - ")).join(
        x for x in [title, p.join([p.rich_noun(), *p.camera_any()])] if x
    )


def _phrase_bag(p: _Parts) -> str:
    return " ".join(x for x in [p.rich_noun(), *p.around(), *p.say("camera", CAMERA_TAGS)] if x)


ARRANGEMENTS: tuple[Callable[[_Parts], str], ...] = (
    _keywords, _keywords, _noun_then_phrases, _noun_then_phrases, _phrases_then_noun, _adjectives,
    _camera_first, _camera_tag_first, _opened, _clauses, _mixed, _sentences, _ornate, _labelled, _camera_acts,
    _with_the_camera, _time_as_title, _phrase_bag,
)  # fmt: skip


# For captions that don't name the scene: no adjectives or leads, which need a noun.
SCENELESS_ARRANGEMENTS = (_keywords, _noun_then_phrases, _mixed, _sentences, _labelled)


def _held_out_parts(p: _Parts) -> tuple[str, list[str], list[str], list[str]]:
    return (
        p.noun(held_out=True),
        p.say("time", HELD_OUT_TIMES),
        p.say("weather", HELD_OUT_WEATHERS),
        p.say("camera", HELD_OUT_CAMERAS),
    )


def _held_out_dashes(p: _Parts) -> str:
    noun, time, weather, camera = _held_out_parts(p)
    return " -- ".join(x for x in [*camera, noun, *weather, *time] if x)


def _held_out_story(p: _Parts) -> str:
    noun, time, weather, camera = _held_out_parts(p)
    scene = f"{p.pick(HELD_OUT_OPENERS)} {noun}" if noun else ""
    tail = [f"for this take: {x}" for x in camera]
    return ", ".join(x for x in [scene, *weather, *time, *tail] if x)


def _held_out_brackets(p: _Parts) -> str:
    noun, time, weather, camera = _held_out_parts(p)
    rest = [f"({x})" for x in p.shuffled(time + weather)]
    return " ".join(x for x in [noun, *rest, *(f"[{x}]" for x in camera)] if x)


def _held_out_request(p: _Parts) -> str:
    noun, time, weather, camera = _held_out_parts(p)
    scene = [f"I would like {noun}"] if noun else []
    return "; ".join([*scene, *(f"set it {x}" for x in time), *weather, *camera])


HELD_OUT_ARRANGEMENTS: tuple[Callable[[_Parts], str], ...] = (
    _held_out_dashes, _held_out_story, _held_out_brackets, _held_out_request,
)  # fmt: skip


def applicable(attributes: Attributes) -> tuple[str, ...]:
    """The names of the attributes that the clip's scene has."""
    return tuple(name for name in ATTRIBUTES if getattr(attributes, name) is not None)


def choose_mentions(attributes: Attributes, rng: random.Random) -> frozenset[str]:
    """What a caption tells of: often one thing beside the scene; camera and colour most often."""
    others = [name for name in applicable(attributes) if name != "scene"]
    weight = {"time": 1.0, "weather": 1.0, "camera": 1.5, "colour": 1.5}
    roll = rng.random()
    if roll < 0.06:
        return frozenset({"scene"})
    if roll < 0.30:
        return frozenset({"scene", *rng.choices(others, [weight[n] for n in others])})
    if roll < 0.33:
        # Without its scene a colour has nothing to hang on.
        alone = [name for name in others if name != "colour"]
        return frozenset(rng.sample(alone, rng.randint(1, len(alone))))
    share = {"time": 0.6, "weather": 0.6, "camera": 0.7, "colour": 0.75}
    return frozenset({"scene", *(name for name in others if rng.random() < share[name])})


def caption(
    attributes: Attributes, mentioned: Collection[str], rng: random.Random, split: str = "train"
) -> str:
    """A caption that tells of exactly the `mentioned` attributes ('scene', 'time', ...).

    split: 'train' or 'held_out' (arrangements and wordings that training never sees). Raises ValueError when
    nothing is mentioned, or something that the scene lacks, or a colour without its scene.
    """
    told = frozenset(mentioned)
    if not told or not told <= set(applicable(attributes)) or ("colour" in told and "scene" not in told):
        raise ValueError(f"{attributes.scene}: cannot tell of {sorted(told)}")
    if split not in ("train", "held_out"):
        raise ValueError(f"split is 'train' or 'held_out', not {split!r}")
    parts = _Parts(rng, attributes, told)
    held_out = split == "held_out"
    if held_out:
        arrangements = HELD_OUT_ARRANGEMENTS
    else:
        arrangements = ARRANGEMENTS if "scene" in told else SCENELESS_ARRANGEMENTS
    text = rng.choice(arrangements)(parts)
    if rng.random() < 0.2:
        filler = rng.choice(HELD_OUT_FILLERS if held_out else FILLERS)
        text = f"{text.rstrip('.')}, {filler}" if held_out or rng.random() < 0.85 else f"{filler}, {text}"
    text = re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", text)
    roll = rng.random()
    if roll < 0.3:
        text = text[0].upper() + text[1:]
        if not text.endswith(".") and rng.random() < 0.6:
            text += "."
    elif roll < 0.33:
        text = text.upper()
    return text


def captions(
    attributes: Sequence[Attributes], generator: random.Random, split: str = "train"
) -> tuple[list[str], list[dict[str, str]]]:
    """A caption for each clip, and what each tells of: {'scene': 'forest', 'time': 'night'}."""
    texts, told = [], []
    for clip in attributes:
        names = choose_mentions(clip, generator)
        texts.append(caption(clip, names, generator, split))
        told.append({name: getattr(clip, name) for name in ATTRIBUTES if name in names})
    return texts, told


@dataclass(frozen=True)
class HeldOutPrompt:
    """A prompt for evaluation; `attributes` holds what its words ask for, and draws for the rest."""

    text: str
    attributes: Attributes
    mentioned: dict[str, str]


def held_out_prompts(count: int = 512, seed: int = 0) -> list[HeldOutPrompt]:
    """Held-out captions, balanced over scenes and over the values of each attribute; all texts differ."""
    rng = random.Random(f"held out/{seed}")
    prompts: list[HeldOutPrompt] = []
    seen: set[str] = set()
    # A shuffled deck for each scene's attribute gives every value equally often.
    decks: dict[tuple[str, str], list[str]] = {}
    while len(prompts) < count:
        scene = SCENES[len(prompts) % len(SCENES)]
        fixed: dict[str, str | None] = {}
        for name in ("time", "weather", "camera", "colour"):
            values = allowed(scene, name)
            deck = decks.setdefault((scene, name), [])
            if values and not deck:
                deck.extend(rng.sample(values, len(values)))
            if values:
                fixed[name] = deck.pop()
        clip = sample_attributes(rng, scene, **fixed)
        names = choose_mentions(clip, rng) | {"scene"}
        text = caption(clip, names, rng, "held_out")
        while text in seen:
            text = caption(clip, names, rng, "held_out")
        seen.add(text)
        told = {name: getattr(clip, name) for name in ATTRIBUTES if name in names}
        prompts.append(HeldOutPrompt(text, clip, told))
    return prompts
